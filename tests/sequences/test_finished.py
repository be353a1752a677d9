import pytest
import torch
from helpers import generator
from toy_models import MODELS, NOTHING, draw

from carms.sequences import advantages, drift, pair_ratio, places, ratios, rollouts


def recomputed(listed, group, noise=0.0):
    """What a trainer finds of these rollouts: all logits at once, from the tokens alone."""
    source = generator(9)
    logits = []
    for t in range(group.tokens.shape[-1]):
        # Beyond the end the model has nothing to say, and the mask hides it.
        before = group.tokens[..., :t].flatten(0, 1)
        each = listed.model(before).detach().unflatten(0, group.tokens.shape[:2])
        logits.append(each + noise * torch.randn(each.shape, generator=source).double())
    policy = listed.policy
    return places(
        torch.stack(logits, 2),
        group.tokens,
        policy.temperature,
        top_k=policy.top_k,
        top_p=policy.top_p,
    )


@pytest.mark.parametrize("epsilon", [None, 0.0])
@pytest.mark.parametrize("name", MODELS)
def test_ratios_are_those_of_the_record(name, epsilon):
    listed = MODELS[name]()
    group = draw(listed, 300, 6, epsilon=epsilon)
    below, probability = recomputed(listed, group)
    # What stands behind the end is anything.
    tokens = group.tokens.masked_fill(~group.mask, 7)
    found = ratios(tokens, below, probability, group.mask, epsilon=epsilon)
    torch.testing.assert_close(found, pair_ratio(group), rtol=1e-9, atol=0)
    rewards = torch.rand(300, 6, generator=generator(), dtype=torch.float64)
    torch.testing.assert_close(advantages(rewards, found), advantages(rewards, group))


def test_thousands_of_tokens():
    """Half of them all but certain, so that rollouts part late; intervals far below any float."""
    length = 3000
    table = 3 * torch.randn(length, 50, generator=generator(), dtype=torch.float64)
    table[: length // 2, 7] += 20

    def step(tokens, cache):
        return table[tokens.shape[1]].expand(len(tokens), -1), cache

    group = rollouts(step, NOTHING.expand(4, 0), 8, length, generator=generator())
    logits = table.expand(*group.tokens.shape, 50)
    found = ratios(group.tokens, *places(logits, group.tokens))
    apart = (group.tokens.unsqueeze(1) != group.tokens.unsqueeze(2)).long().argmax(-1)
    assert apart.max() >= length // 2
    assert group.log_width.max() < -2000
    torch.testing.assert_close(found, pair_ratio(group), rtol=1e-9, atol=0)


def test_single_precision_is_good_enough():
    listed = MODELS["ends"]()
    group = draw(listed, 300, 6)
    below, probability = recomputed(listed, group)
    found = ratios(group.tokens, below.float(), probability.float(), group.mask)
    torch.testing.assert_close(found, pair_ratio(group), rtol=1e-5, atol=0)


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_the_error_is_in_proportion_to_the_drift(noise):
    """A server's logits differ from the trainer's: ratios are wrong by about N d R."""
    listed, count = MODELS["table"](), 8
    group = draw(listed, 500, count)
    below, probability = recomputed(listed, group, noise)
    moved = drift(probability, group.shares)
    assert noise / 100 < moved.mean() < noise
    wanted = pair_ratio(group)
    error = (ratios(group.tokens, below, probability) / wanted - 1).abs()
    together = moved.unsqueeze(-1) + moved.unsqueeze(-2) + noise
    assert (error <= 2 * count * together * wanted).all()
    assert error.max() > noise / 10


def test_drift_forgets_late_tokens_and_padding():
    probability = torch.tensor([[[0.1, 0.1, 0.5, 0.9], [0.1, 0.1, 0.5, 0.9]]])
    reported = torch.tensor([[[0.1, 0.1, 0.7, 0.1], [0.3, 0.1, 0.5, 0.9]]])
    mask = torch.tensor([1, 1, 1, 0]).expand(1, 2, 4)
    torch.testing.assert_close(
        drift(probability, reported, mask), torch.tensor([[0.002, 0.2]]).double()
    )


def test_drift_of_no_tokens():
    assert drift(torch.rand(2, 3, 0), torch.rand(2, 3, 0)).equal(torch.zeros(2, 3).double())


@pytest.mark.parametrize("shape", [(2, 1, 4), (3, 4), (2, 3, 5)])
def test_drift_of_other_shapes(shape):
    with pytest.raises(ValueError, match=r"reported must be one per token, .*= \[2, 3, 4\], got"):
        drift(torch.rand(2, 3, 4), torch.rand(shape))


def test_tensors_of_other_devices():
    with pytest.raises(ValueError, match=r"reported must be on cpu, as probability is, got meta"):
        drift(torch.rand(2, 3, 4), torch.rand(2, 3, 4, device="meta"))
    tokens = torch.zeros(2, 3, 4, dtype=torch.long)
    with pytest.raises(ValueError, match=r"below must be on cpu, as tokens are, got meta"):
        ratios(tokens, torch.rand(2, 3, 4, device="meta"), torch.rand(2, 3, 4))


def test_a_guard_against_other_weights():
    listed = MODELS["table"]()
    group = draw(listed, 50, 4)
    below, probability = recomputed(listed, group)
    ratios(group.tokens, below, probability, reported=group.shares)
    with pytest.raises(ValueError, match=r"of 200 rollouts drifted by more than 0.01 of the ring"):
        ratios(group.tokens, below, probability, reported=group.shares**0.5)
    with pytest.raises(ValueError, match=r"^200 of 200 rollouts drifted"):
        ratios(group.tokens, below, probability, reported=torch.full_like(group.shares, torch.nan))


def test_an_end_token_that_is_missing():
    listed = MODELS["ends"]()
    group = draw(listed, 200, 4)
    below, probability = recomputed(listed, group)
    without = group.mask & (group.tokens != listed.eos)
    for tokens in (group.tokens, group.tokens.to(torch.uint8)):
        with pytest.raises(ValueError, match="the end token must be among its tokens"):
            ratios(tokens, below, probability, without)


def test_a_tool_that_answers_each_rollout_differently():
    """The tool's token does not count, and the next one depends on it."""
    answers = torch.randint(2, (50, 4, 1), generator=generator())
    tokens = torch.cat((torch.zeros(50, 4, 1).long(), answers, torch.ones(50, 4, 1).long()), -1)
    below = torch.zeros(50, 4, 3)
    probability = torch.where(
        answers == 0, torch.tensor([0.5, 1, 0.2]), torch.tensor([0.5, 1, 0.9])
    )
    mask = torch.tensor([1, 0, 1]).expand(50, 4, 3)
    with pytest.raises(ValueError, match=r"same tokens must get the same logits.* up to 0.35"):
        ratios(tokens, below, probability, mask)
    ratios(tokens, below, probability[:, :1].expand(50, 4, 3), mask)
    ratios(tokens, below, probability, mask, copula="independent")


def test_independent_samples():
    values = torch.full((2, 3, 4), 0.5)
    found = ratios(torch.zeros(2, 3, 4).long(), 0 * values, values, copula="independent")
    assert torch.equal(found, torch.ones(2, 3, 3).double())


TOKENS, HALF = torch.zeros(2, 3, 4, dtype=torch.long), torch.full((2, 3, 4), 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": TOKENS[0]}, r"\[P, N, length\], .* got shape \[3, 4\]"),
        ({"tokens": TOKENS[:, :1]}, r"at least 2 rollouts .* got shape \[2, 1, 4\]"),
        ({"below": HALF[..., :3]}, r"below must be .* \[2, 3, 4\], got shape \[2, 3, 3\]"),
        ({"mask": TOKENS[0]}, r"mask must be .* got shape \[3, 4\]"),
        ({"probability": 0 * HALF}, "24 tokens have probability 0"),
        ({"below": HALF + 0.1}, "below from 0.6 to 0.6, together up to 1.1"),
        ({"below": -HALF}, "below from -0.5 to -0.5"),
        ({"epsilon": 2.0}, "epsilon is a probability, got 2.0"),
        ({"copula": "gaussian"}, "'circular' or 'independent', got 'gaussian'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input(change, message):
    arguments = {"tokens": TOKENS, "below": HALF, "probability": HALF}
    with pytest.raises(ValueError, match=message):
        ratios(**{**arguments, **change})


def test_logits_of_another_shape():
    with pytest.raises(ValueError, match=r"got \[2, 7\] for tokens of shape \[3\]"):
        places(torch.zeros(2, 7), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"got \[\] for tokens of shape \[\]"):
        places(torch.tensor(1.0), torch.tensor(0))


def test_tokens_that_are_none():
    with pytest.raises(
        ValueError, match=r"tokens must be from 0 to 6, got -100 to 3; pad with any"
    ):
        places(torch.zeros(2, 7), torch.tensor([3, -100]))
    with pytest.raises(TypeError, match=r"logits must be floating point, got torch.int64"):
        places(torch.zeros(2, 7, dtype=torch.long), torch.tensor([3, 1]))


def test_lists_are_refused():
    tokens = torch.tensor([[[0], [1]]])
    with pytest.raises(TypeError, match="logits must be a tensor, got list"):
        places([[0.0, 1.0]], tokens)
    with pytest.raises(TypeError, match="tokens must be a tensor of integers, got list"):
        ratios([[[0], [1]]], tokens, tokens)
    with pytest.raises(TypeError, match="below must be a tensor, got float"):
        ratios(tokens, 0.0, tokens)
