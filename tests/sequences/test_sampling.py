import numpy as np
import pytest
import torch
from helpers import chi_square_chance, generator
from toy_models import MODELS, NOTHING, draw

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import rollouts
from carms.sequences.policy import Policy


def chance(counts, probs):
    """Of counts that far from their expectations; rare cells are one."""
    counts, expected = counts.double().flatten(), (probs * counts.sum()).flatten()
    rare = expected < 20
    assert counts[expected < 1e-9].sum() == 0
    counts = torch.cat((counts[~rare], counts[rare].sum().view(1)))
    expected = torch.cat((expected[~rare], expected[rare].sum().view(1)))
    seen = expected > 1e-6
    return chi_square_chance(counts[seen], expected[seen])


@pytest.mark.parametrize("name", MODELS)
def test_sequences_have_their_probabilities(name):
    """Each rollout by itself: its position in the group makes no difference."""
    listed = MODELS[name]()
    group = draw(listed, 40_000)
    index = listed.index(group.tokens)
    for n in range(4):
        counts = torch.bincount(index[:, n], minlength=len(listed.tokens))
        assert chance(counts, listed.probs) > 1e-5
    assert torch.equal(group.lengths, listed.lengths[index])
    assert torch.equal(group.mask.sum(-1), group.lengths)
    torch.testing.assert_close(group.log_width.exp(), listed.probs[index])
    torch.testing.assert_close(group.start, (listed.probs.cumsum(0) - listed.probs)[index])


@pytest.mark.parametrize("name", ["table", "ends", "transformer"])
def test_two_rollouts_follow_the_closed_form(name):
    """A million draws of two of three rollouts."""
    listed = MODELS[name]()
    size, epsilon, chunks = len(listed.tokens), 0.1, 10
    counts = torch.zeros(size * size)
    for chunk in range(chunks):
        index = listed.index(draw(listed, 1_000_000 // chunks, 3, chunk, epsilon=epsilon).tokens)
        counts += torch.bincount(index[:, 0] * size + index[:, 2], minlength=size * size)
    table = InverseCDF(Circular(3), epsilon=epsilon).pmf(listed.probs)
    assert chance(counts, table) > 1e-5
    assert chance(counts, listed.probs.unsqueeze(-1) * listed.probs) < 1e-100


def test_deep_tokens_of_two_rollouts():
    """Where all first bits are spent, two rollouts go their own ways, and each the right one."""

    def step(tokens, cache):
        odds = torch.tensor([0.2, 0.5, 0.3]).log()
        return odds.expand(len(tokens), 3), cache

    group = rollouts(step, NOTHING.expand(50_000, 0), 2, 80, epsilon=0.0, generator=generator())
    probs = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    for t in (45, 79):
        pairs = group.tokens[:, 0, t] * 3 + group.tokens[:, 1, t]
        assert chance(torch.bincount(pairs, minlength=9), probs.unsqueeze(-1) * probs) > 1e-5


def test_two_rollouts_that_share_much():
    """Hundreds of tokens that are nearly certain, so that many rollouts fork late or never."""
    length, stay = 300, 0.997

    def step(tokens, cache):
        odds = torch.tensor([1 - stay, stay], dtype=torch.float64).log()
        return odds.expand(len(tokens), 2), cache

    # Ending with the rare token: the sequences are the places at which it comes.
    group = rollouts(
        step, NOTHING.expand(10_000, 0), 3, length, epsilon=0.0, eos=0, generator=generator()
    )
    never = group.tokens[..., -1] == 1
    place = torch.where(never, length, group.lengths - 1) // 30
    ends = (1 - stay) * stay ** torch.arange(length, dtype=torch.float64)
    probs = torch.cat((ends.view(10, 30).sum(-1), torch.tensor([stay**length]).double()))
    # Lexicographic order: the rare token is the smaller one, so the earlier come first.
    table = InverseCDF(Circular(3)).pmf(probs)
    counts = torch.bincount(place[:, 0] * 11 + place[:, 1], minlength=121)
    assert chance(counts, table) > 1e-5
    assert chance(torch.bincount(place[:, 2], minlength=11), probs) > 1e-5


def test_prompts_keep_their_rows():
    """A prompt goes to all of its rows, and its rollouts come back under it."""

    def step(tokens, cache):
        return 50.0 * torch.nn.functional.one_hot(tokens[:, 0], 7), cache

    prompts = torch.tensor([[3, 1], [6, 1], [0, 1]])
    group = rollouts(step, prompts, 5, 4)
    assert group.tokens.tolist() == [[[prompt] * 4] * 5 for prompt in (3, 6, 0)]


def test_step_sees_all_tokens_and_its_own_cache():
    seen = []

    def step(tokens, cache):
        assert cache == (None if not seen else len(seen))
        seen.append(tokens.clone())
        return torch.zeros(len(tokens), 9), len(seen)

    group = rollouts(step, torch.tensor([[4, 5]]), 3, 6, generator=generator())
    assert [tokens.shape for tokens in seen] == [(3, t) for t in range(2, 8)]
    assert all(torch.equal(tokens, seen[-1][:, : tokens.shape[1]]) for tokens in seen)
    assert torch.equal(seen[-1][:, 2:], group.tokens[0, :, :5])
    assert (seen[-1][:, :2] == torch.tensor([4, 5])).all()


def test_a_cache_and_no_cache_are_the_same():
    """A recurrent model by its state, and from the beginning at each token."""
    table = torch.randn(6, 6, generator=generator(), dtype=torch.float64)

    def state(old, token):
        return torch.tanh(0.5 * old + table[token])

    def cached(tokens, cache):
        old = torch.zeros(len(tokens), 6).double() if cache is None else cache
        new = state(old, tokens[:, -1])
        return 3 * new, new

    def plain(tokens, cache):
        hidden = torch.zeros(len(tokens), 6).double()
        for token in tokens.unbind(-1):
            hidden = state(hidden, token)
        return 3 * hidden, cache

    prompts = torch.tensor([[2], [5]])
    one, other = (
        rollouts(step, prompts, 8, 12, eos=0, generator=generator(3)) for step in (cached, plain)
    )
    assert torch.equal(one.tokens, other.tokens)
    assert torch.equal(one.lower, other.lower)


def test_a_generator_makes_it_reproducible_and_leaves_the_global_stream_alone():
    listed = MODELS["ends"]()
    before = torch.get_rng_state()
    one, same, other = draw(listed, 20), draw(listed, 20), draw(listed, 20, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.tokens, same.tokens)
    assert torch.equal(one.span, same.span)
    assert not torch.equal(one.tokens, other.tokens)


def test_ended_rollouts_are_filled_up():
    listed = MODELS["ends"]()
    group = draw(listed, 2000)
    ended = group.tokens == 1
    after = ended.cumsum(-1) > ended
    assert after.any()
    assert (group.tokens[after] == 1).all()
    assert (group.log_probs[after] == 0).all()
    assert (group.log_probs[~after] < 0).all()
    assert torch.equal(group.mask, ~after)


def test_no_more_steps_once_all_have_ended():
    calls = []

    def step(tokens, cache):
        calls.append(tokens.shape[1])
        return torch.full((len(tokens), 4), -torch.inf).index_fill(1, torch.tensor([2]), 0.0), cache

    group = rollouts(step, NOTHING.expand(3, 0), 2, 50, eos=[3, 2])
    assert calls == [0]
    assert group.tokens.shape == (3, 2, 50)
    assert (group.tokens[..., 0] == 2).all()
    assert (group.tokens[..., 1:] == 3).all()
    assert (group.lengths == 1).all()
    assert (group.log_width == 0).all()


def test_epsilon_one_is_independent():
    listed = MODELS["table"]()
    size = len(listed.tokens)
    index = listed.index(draw(listed, 100_000, 2, epsilon=1.0).tokens)
    counts = torch.bincount(index[:, 0] * size + index[:, 1], minlength=size * size)
    assert chance(counts, listed.probs.unsqueeze(-1) * listed.probs) > 1e-5


def test_no_graph_is_kept():
    listed = MODELS["table"]()
    group = draw(listed, 2)
    assert not group.log_probs.requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_logits(dtype):
    def step(tokens, cache):
        return torch.arange(5, dtype=dtype).expand(len(tokens), 5), cache

    group = rollouts(step, NOTHING.expand(20_000, 0), 2, 1, generator=generator())
    probs = torch.arange(5).double().softmax(0)
    assert chance(torch.bincount(group.tokens.flatten(), minlength=5), probs) > 1e-5


def uniform_step(tokens, cache):
    return torch.zeros(len(tokens), 3), cache


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"prompts": torch.zeros(2, 3)}, TypeError, "prompts must be integers, got torch.float32"),
        ({"prompts": [[1, 2]]}, TypeError, "tensor of integers, got list"),
        ({"prompts": torch.zeros(3, dtype=torch.long)}, ValueError, r"got shape \[3\]"),
        ({"prompts": torch.zeros(0, 3, dtype=torch.long)}, ValueError, r"got shape \[0, 3\]"),
        ({"samples": 1}, ValueError, "at least 2 samples, got samples=1"),
        ({"samples": 0}, ValueError, "at least 2 samples, got samples=0"),
        ({"length": 0}, ValueError, "at least 1 token, got length=0"),
        ({"copula": "gaussian"}, ValueError, "or 'independent', got 'gaussian'"),
        ({"epsilon": 1.5}, ValueError, "epsilon is a probability, got 1.5"),
        ({"epsilon": float("nan")}, ValueError, "epsilon must be a number, got nan"),
        ({"temperature": 0}, ValueError, "temperature must be positive and finite, got 0"),
        ({"top_k": 0}, ValueError, "at least 1 token, got 0"),
        ({"top_p": 0.0}, ValueError, "above 0, got 0.0"),
        ({"eos": -1}, ValueError, r"token number or several, got \(-1,\)"),
        ({"eos": 99}, ValueError, r"eos must be a token of the model, from 0 to \d+, got 99"),
        ({"step": lambda t, c: (torch.zeros(3), c)}, ValueError, r"rows = 8, got shape \[3\]"),
        ({"step": lambda t, c: (torch.zeros(8, 2).long(), c)}, TypeError, "got torch.int64"),
        ({"step": lambda t, c: (None, c)}, TypeError, "logits, got NoneType"),
        ({"step": lambda t, c: (torch.full((8, 2), torch.nan), c)}, ValueError, "got NaN"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input(change, error, message):
    arguments = {"step": uniform_step, "prompts": NOTHING.expand(2, 0), "samples": 4, "length": 3}
    with pytest.raises(error, match=message):
        rollouts(**{**arguments, **change})


@pytest.mark.parametrize(
    "eos", [0, np.int64(0), torch.tensor(0), torch.tensor([0]), [0], np.array([0])], ids=repr
)
def test_an_eos_of_any_library(eos):
    def step(tokens, cache):
        return torch.zeros(len(tokens), 2), cache

    group = rollouts(step, NOTHING.expand(50, 0), 4, 40, eos=eos, generator=generator())
    assert 1 < group.lengths.double().mean() < 3


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (Policy(top_p=0.55), 2),
        (Policy(top_k=2, top_p=0.55), 1),  # 0.4 of 0.7
        (Policy(temperature=0.5, top_p=0.5), 1),  # 0.16 of 0.3
        (Policy(temperature=2.0, top_p=0.65), 3),
    ],
    ids=str,
)
def test_top_p_is_a_share_of_what_temperature_and_top_k_leave(policy, kept):
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert (policy.probabilities(logits) > 0).sum().item() == kept


@pytest.mark.parametrize("vocabulary", [5, 100, 1000])
def test_top_k_keeps_all_tokens_that_are_equal_to_the_last(vocabulary):
    """As ``transformers`` and vLLM do: half precision has many equal logits."""
    logits = torch.zeros(1, vocabulary, dtype=torch.bfloat16)
    logits[:, 0], logits[:, 1] = 1.0, -1.0
    assert torch.equal(Policy(top_k=2).probabilities(logits) > 0, logits >= 0)
    assert torch.equal(Policy(top_k=1).probabilities(logits) > 0, logits > 0)
