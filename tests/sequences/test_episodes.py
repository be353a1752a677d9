"""Rewards on the way: unbiased by every pair of episodes and by simulation."""

import pytest
import torch
from helpers import Moments, generator, z_limit
from toy_models import MODELS, NOTHING, Listed, Table, code, draw

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import Rollouts, advantages, pair_ratio, rollouts, surrogate
from carms.sequences.circular_ratio import prefix_ratios

SMALL = {
    "forever": lambda: Listed(Table(3, 3, seed=11), 3),
    "ends": lambda: Listed(Table(3, 4, seed=12), 4, eos=1),
}


def to_go(values):
    return values.flip(-1).cumsum(-1).flip(-1)


def first_tokens(group, count):
    """The record of the first ``count`` tokens of rollouts."""
    fields = (each[..., :count] for each in (group.tokens, group.lower, group.upper, group.span))
    tokens, lower, upper, span = fields
    lengths = group.lengths.clamp_max(count)
    return Rollouts(tokens, lengths, lower, upper, span, group.copula, group.epsilon)


@pytest.mark.parametrize("samples", [2, 5, 16])
@pytest.mark.parametrize("name", ["coins", "ends", "top-p"])
def test_ratios_up_to_each_token_are_those_of_shorter_rollouts(name, samples):
    group = draw(MODELS[name](), 100, samples, epsilon=0.03)
    found = list(prefix_ratios(group.pieces, group.epsilon))
    assert len(found) == group.tokens.shape[-1]
    for t, ratio in enumerate(found):
        wanted = pair_ratio(first_tokens(group, t + 1))
        torch.testing.assert_close(ratio, wanted, rtol=1e-9, atol=0)


def test_ratios_up_to_each_token_of_long_rollouts():
    """Where positions on the ring are far below what floats can tell apart."""
    table = torch.randn(3, 3, generator=generator(), dtype=torch.float64)

    def step(tokens, cache):
        return table[tokens[:, -1]], cache

    group = rollouts(step, NOTHING.new_zeros(20, 1), 6, 1000, epsilon=0.0, generator=generator())
    assert group.log_width.max() < -200
    *_, last = prefix_ratios(group.pieces, 0.0)
    assert last.isfinite().all()
    torch.testing.assert_close(last, pair_ratio(group), rtol=1e-9, atol=0)


def rewards_of(listed, seed=1):
    """``[sequences, length]``: a random number for every prefix, zero after the end."""
    columns = []
    for t in range(1, listed.length + 1):
        table = torch.randn(
            listed.model.vocabulary**t, generator=generator(seed + t), dtype=torch.float64
        )
        columns.append(1 + table[code(listed.tokens[:, :t], listed.model.vocabulary)])
    counted = torch.arange(listed.length) < listed.lengths.unsqueeze(-1)
    return torch.stack(columns, -1) * counted


def flat_gradient(value, listed):
    parameters = list(listed.model.parameters())
    found = torch.autograd.grad(value, parameters, retain_graph=True)
    return torch.cat([each.flatten() for each in found])


def true_gradient(listed, rewards):
    return flat_gradient((listed.log_probs().exp() * rewards.sum(-1)).sum(), listed)


def every_pair(listed, epsilon, copula):
    """Both orders of every two sequences, as rollouts of a prompt each, and their probabilities."""
    below, upto = [], []
    for t in range(listed.length):
        probs = listed.model(listed.tokens[:, :t]).detach().softmax(-1)
        ends = probs.cumsum(-1).gather(-1, listed.tokens[:, t : t + 1]).squeeze(-1)
        own = probs.gather(-1, listed.tokens[:, t : t + 1]).squeeze(-1)
        over = t >= listed.lengths
        below.append((ends - own).masked_fill(over, 0))
        upto.append(ends.masked_fill(over, 1))
    every = torch.arange(len(listed.tokens))
    pairs = torch.cartesian_prod(every, every)
    lower, upper = (torch.stack(each, -1)[pairs] for each in (below, upto))
    tokens, lengths = listed.tokens[pairs], listed.lengths[pairs]
    group = Rollouts(tokens, lengths, lower, upper, torch.ones_like(lower), copula, epsilon)
    together = listed.probs.unsqueeze(-1) * listed.probs
    if copula == "circular":
        together = InverseCDF(Circular(2), epsilon=epsilon).pmf(listed.probs)
    return group, pairs, together.flatten()


def expected_gradient(listed, pairs, chance, weights):
    """``E 1/N sum_n sum_t A_nt d log q(token t of rollout n)`` over all pairs."""
    log_probs = listed.token_log_probs()[pairs]
    return flat_gradient((chance * (weights * log_probs).sum(-1).mean(-1)).sum(), listed)


@pytest.mark.parametrize("copula", ["circular", "independent"])
@pytest.mark.parametrize("name", SMALL)
def test_every_pair_of_episodes_adds_up_to_the_gradient(name, copula):
    listed = SMALL[name]()
    rewards = rewards_of(listed)
    truth = true_gradient(listed, rewards)
    group, pairs, chance = every_pair(listed, 0.1, copula)
    assert chance.sum() == pytest.approx(1)
    for given in ((group,), (pair_ratio(group), group.mask)):
        weights = advantages(rewards[pairs], *given)
        found = expected_gradient(listed, pairs, chance, weights)
        torch.testing.assert_close(found, truth, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", SMALL)
def test_the_ratio_up_to_the_action_does_not_do(name):
    """Later rewards are correlated with the other episode too."""
    listed = SMALL[name]()
    rewards = rewards_of(listed)
    truth = true_gradient(listed, rewards)
    group, pairs, chance = every_pair(listed, 0.1, "circular")
    returns = to_go(rewards)[pairs]
    weights = returns - returns.flip(1)
    for t in range(listed.length):
        weights[..., t] *= pair_ratio(first_tokens(group, t + 1))[:, 0, 1, None]
    found = expected_gradient(listed, pairs, chance, weights * group.mask)
    assert (found - truth).norm() > 1e-3 * truth.norm()


def token_scores(listed):
    """``[sequences * length, parameters]``: gradients of the log probabilities of tokens."""
    rows = []
    for value in listed.token_log_probs().flatten():
        gradients = torch.autograd.grad(
            value,
            list(listed.model.parameters()),
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        rows.append(torch.cat([each.flatten() for each in gradients]))
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("name", "samples", "copula"),
    [("forever", 8, "circular"), ("ends", 5, "circular"), ("ends", 4, "independent")],
)
def test_simulated_groups_are_unbiased(name, samples, copula):
    listed = SMALL[name]()
    by_sequence = rewards_of(listed)
    truth, scores = true_gradient(listed, by_sequence), token_scores(listed)
    moves = scores.abs().amax(0) > 1e-9
    moments = {"prefixes": Moments(), "whole": Moments(), "plain": Moments()}
    for chunk in range(4):
        group = draw(listed, 10_000, samples, 50 + chunk, copula=copula)
        index = listed.index(group.tokens)
        rewards = by_sequence[index]
        ratios = pair_ratio(group)
        for way, given in (("prefixes", group), ("whole", ratios), ("plain", ratios * 0 + 1)):
            mask = None if given is group else group.mask
            weights = advantages(rewards, given, mask) / samples
            each = torch.zeros(len(index), len(listed.tokens), listed.length, dtype=torch.float64)
            each.scatter_add_(1, index.unsqueeze(-1).expand_as(weights), weights)
            moments[way].add(each.flatten(1) @ scores[:, moves])
    assert moments["prefixes"].agrees_with(truth[moves])
    assert moments["whole"].agrees_with(truth[moves])
    if copula == "independent":
        assert moments["plain"].agrees_with(truth[moves])
    else:
        assert moments["plain"].z(truth[moves]).max() > 2 * z_limit(int(moves.sum()))
        assert moments["prefixes"].variance.sum() < moments["whole"].variance.sum()


def test_rewards_after_the_end_are_ignored():
    listed = MODELS["ends"]()
    group = draw(listed, 200, 6)
    rewards = torch.randn(group.tokens.shape, generator=generator(), dtype=torch.float64)
    found = advantages(rewards, group)
    assert (~group.mask).any()
    assert torch.equal(found, advantages(rewards.masked_fill(~group.mask, 7.0), group))
    assert (found[~group.mask] == 0).all()


def test_one_reward_at_the_end_is_a_reward_per_rollout():
    group = draw(MODELS["coins"](), 50, 6)
    rewards = torch.randn(50, 6, generator=generator())
    per_token = torch.zeros(group.tokens.shape)
    per_token[..., -1] = rewards
    found = advantages(per_token, group)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, advantages(rewards, group).unsqueeze(-1).expand_as(found))


def test_surrogate_of_rewards_per_token():
    listed = SMALL["ends"]()
    group = draw(listed, 30, 4)
    index = listed.index(group.tokens)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    rewards = rewards_of(listed)[index]
    log_probs = listed.token_log_probs()[index]
    value = surrogate(scale * rewards, log_probs, group)
    torch.testing.assert_close(value.detach(), rewards.sum(-1).mean(-1))
    weights = advantages(rewards, group)
    wanted = flat_gradient((weights * log_probs).sum(-1).mean(-1).sum(), listed)
    torch.testing.assert_close(
        flat_gradient(surrogate(rewards, log_probs, group).sum(), listed), wanted
    )
    (ordinary,) = torch.autograd.grad(value.sum(), scale)
    torch.testing.assert_close(ordinary, rewards.sum(-1).mean(-1).sum())


def counting(tokens, cache):
    """An environment that adds up its actions; the last one too, if it is called after it."""
    total = torch.zeros(len(tokens)) if not tokens.shape[1] else cache + tokens[:, -1]
    return torch.zeros(len(tokens), 3), total


def test_the_last_action_reaches_the_environment():
    group = rollouts(counting, NOTHING.expand(4, 0), 3, 5, generator=generator(), finish=True)
    assert torch.equal(group.cache.view(4, 3), group.tokens.sum(-1).float())
    plain = rollouts(counting, NOTHING.expand(4, 0), 3, 5, generator=generator())
    assert torch.equal(plain.tokens, group.tokens)
    assert plain.cache is None


def test_the_last_action_of_episodes_that_all_end_early():
    calls = []

    def step(tokens, cache):
        calls.append(tokens.shape[1])
        return torch.tensor([0.0, -torch.inf]).expand(len(tokens), 2), len(calls)

    group = rollouts(step, NOTHING.expand(2, 0), 2, 9, eos=0, finish=True)
    assert calls == [0, 1]
    assert group.cache == 2


@pytest.mark.parametrize("copula", ["circular", "independent"])
def test_rewards_after_the_end_of_all_episodes_may_be_missing(copula):
    def step(tokens, cache):
        return torch.zeros(len(tokens), 2), cache

    given = {"copula": copula, "eos": 1, "generator": generator()}
    group = rollouts(step, NOTHING.expand(2, 0), 3, 30, **given)
    last = int(group.lengths.max())
    assert 1 < last < 30
    rewards = torch.randn(group.tokens.shape, generator=generator(), dtype=torch.float64)
    found = advantages(rewards[..., :last], group)
    assert found.any()
    torch.testing.assert_close(found, advantages(rewards, group)[..., :last])
    value, short = (
        surrogate(each, torch.zeros_like(each), group) for each in (rewards, rewards[..., :last])
    )
    torch.testing.assert_close(value, short)
    with pytest.raises(ValueError, match="one number per token"):
        advantages(rewards[..., : last - 1], group)


def noisy(tokens, cache):
    """Every episode has a random state of its own."""
    state = torch.rand(len(tokens), generator=generator(tokens.shape[1]))
    return 3 * torch.stack((state, 1 - state), -1), cache


@pytest.mark.parametrize("finish", [True, False])
def test_environments_that_do_not_repeat_themselves(finish):
    with pytest.raises(ValueError, match=r"same logits, got probabilities that differ by up to 0"):
        rollouts(noisy, NOTHING.expand(3, 0), 8, 3, finish=finish)
    rollouts(noisy, NOTHING.expand(3, 0), 8, 3, copula="independent", finish=finish)


@pytest.mark.parametrize("given", ["group", "ratio"])
def test_bad_rewards_per_token(given):
    group = draw(MODELS["table"](), 3)
    of = group if given == "group" else pair_ratio(group)
    mask = None if given == "group" else torch.ones(3, 4, 3, dtype=torch.bool)
    if given == "group":
        with pytest.raises(ValueError, match=r"\[P, N, length\] = \[3, 4, 3\], got .*\[3, 4, 5\]"):
            advantages(torch.zeros(3, 4, 5), of)
    with pytest.raises(ValueError, match=r"\[P, N, length\] = \[3, 4, 3\], got .*\[2, 4, 3\]"):
        advantages(torch.zeros(2, 4, 3), of, mask)
    with pytest.raises(ValueError, match=r"one number per token.* got shape \[3, 4\]"):
        surrogate(torch.zeros(3, 4, 3), torch.zeros(3, 4), of, mask)


@pytest.mark.parametrize("told", [False, True])
def test_what_comes_after_the_end_has_no_part(told):
    """Neither a reward nor a log probability of padding, whether the end is known or told."""
    listed = SMALL["ends"]()
    group = draw(listed, 200, 4, copula="independent")
    given = (pair_ratio(group), group.mask) if told else (group,)
    rewards = rewards_of(listed)[listed.index(group.tokens)]
    log_probs = torch.zeros_like(rewards, requires_grad=True)
    value = surrogate(rewards.masked_fill(~group.mask, 7.0), log_probs, *given)
    torch.testing.assert_close(value, rewards.sum(-1).mean(-1))
    (gradient,) = torch.autograd.grad(value.sum(), log_probs)
    assert gradient[group.mask].any()
    assert not group.mask.all()
    assert not gradient[~group.mask].any()
    torch.testing.assert_close(gradient, advantages(rewards, *given) / 4)


def test_rewards_for_tokens_of_an_environment_count():
    """Those in between are not drawn, but what a rollout did before them earned their rewards."""
    mask = torch.tensor([[[True, False, True, False], [True, False, False, False]]])
    ratio = torch.ones(1, 2, 2)
    rewards = torch.tensor([[[0.0, 3.0, 0.0, 9.0], [0.0, 9.0, 0.0, 0.0]]])
    found = advantages(rewards, ratio, mask)
    assert found.tolist() == [[[3.0, 0.0, 0.0, 0.0], [-3.0, 0.0, 0.0, 0.0]]]
    value = surrogate(rewards, torch.zeros_like(rewards), ratio, mask)
    assert value.tolist() == [1.5]


def test_where_finished_samples_end_must_be_told():
    group = draw(SMALL["ends"](), 3)
    rewards, ratio = torch.zeros(group.tokens.shape), pair_ratio(group)
    with pytest.raises(ValueError, match=r"do not tell where rollouts end.* got NoneType"):
        advantages(rewards, ratio)
    with pytest.raises(ValueError, match=r"\[3, 4, 4\], True for .*; got \[3, 4, 3\]"):
        surrogate(rewards, rewards, ratio, group.mask[..., :3])
    with pytest.raises(ValueError, match="rollouts know where they end"):
        advantages(rewards, group, group.mask)
    with pytest.raises(ValueError, match="rewards of whole rollouts need no mask"):
        advantages(rewards.sum(-1), ratio, group.mask)


def test_weights_are_not_rounded_to_the_rewards():
    ratio = torch.full((1, 2, 2), 0.7003, dtype=torch.float64)
    log_probs = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([[1.0, 0.0]], dtype=torch.bfloat16)
    surrogate(rewards, log_probs, ratio).sum().backward()
    assert log_probs.grad.tolist() == [[0.7003 / 2, -0.7003 / 2]]
