from fractions import Fraction

import pytest
import torch
from helpers import Moments, exact_circular_lift, generator, z_limit
from toy_models import MODELS, NOTHING, Listed, Table, draw

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.sequences import (
    Rollouts,
    advantages,
    default_epsilon,
    pair_ratio,
    rollouts,
    surrogate,
)


def leave_one_out(rewards):
    count = rewards.shape[1]
    return (rewards - rewards.mean(-1, keepdim=True)) * (count / (count - 1))


def random_rewards(listed, seed=0):
    return torch.randn(len(listed.tokens), generator=generator(seed), dtype=torch.float64) + 1


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("samples", [2, 5, 16])
@pytest.mark.parametrize("name", MODELS)
def test_ratios_are_those_of_the_listed_sequences(name, samples, epsilon):
    """Sequence by sequence as by their list, where they are categories of one variable."""
    listed = MODELS[name]()
    group = draw(listed, 500, samples, epsilon=epsilon)
    index = listed.index(group.tokens)
    ratio = pair_ratio(group)
    table = InverseCDF(Circular(samples), epsilon=epsilon).pmf(listed.probs)
    wanted = listed.probs.unsqueeze(-1) * listed.probs / table
    wanted = wanted[index.unsqueeze(-1), index.unsqueeze(-2)]
    equal = index.unsqueeze(-1) == index.unsqueeze(-2)
    torch.testing.assert_close(ratio[~equal], wanted[~equal], rtol=1e-9, atol=0)
    assert (ratio[equal] == 1).all()
    assert torch.equal(ratio, ratio.mT)


def by_hand(shared, length, seed):
    """Two rollouts that part after ``shared`` tokens, with random pieces."""
    source = generator(seed)
    span = torch.randint(2**49, 2**50, (1, 2, length), generator=source)
    cuts = torch.rand(1, 2, length, 2, generator=source, dtype=torch.float64).sort(-1).values
    lower, upper = (cuts * span.unsqueeze(-1)).long().unbind(-1)
    tokens = torch.zeros(1, 2, length, dtype=torch.long)
    for field in (span, lower, upper):
        field[:, 1, : shared + 1] = field[:, 0, : shared + 1]
    # At the fork the second takes what follows the first: adjoining pieces, or all but.
    lower[:, 1, shared] = upper[:, 0, shared] + (seed % 3)
    upper[:, 1, shared] = torch.maximum(upper[:, 1, shared], lower[:, 1, shared] + 1)
    tokens[:, 1, shared] = 1
    order = [1, 0] if seed % 2 else [0, 1]
    fields = (field[:, order] for field in (tokens, lower.double(), upper.double(), span.double()))
    tokens, lower, upper, span = fields
    return Rollouts(tokens, torch.full((1, 2), length), lower, upper, span, "circular", 0.0)


def exact_interval(group, n):
    left, width = Fraction(0), Fraction(1)
    fields = (field[0, n].long().tolist() for field in (group.lower, group.upper, group.span))
    for lower, upper, span in zip(*fields, strict=True):
        left += width * Fraction(lower, span)
        width *= Fraction(upper - lower, span)
    return left, width


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shared", [0, 1, 20, 99])
def test_rollouts_nearer_than_floats_can_tell(shared, seed):
    """Against rational numbers, for intervals down to 1e-90 of the ring that all but touch."""
    group = by_hand(shared, 100, seed)
    lift = exact_circular_lift(2, exact_interval(group, 0), exact_interval(group, 1))
    if shared == 99:
        assert float(lift) < 1e-20
    assert float(pair_ratio(group)[0, 0, 1] * float(lift)) == pytest.approx(1, rel=1e-11)


def test_independent_rollouts_have_the_advantages_of_rloo():
    listed = MODELS["ends"]()
    group = draw(listed, 100, 6, copula="independent")
    rewards = random_rewards(listed)[listed.index(group.tokens)]
    assert (pair_ratio(group) == 1).all()
    torch.testing.assert_close(advantages(rewards, group), leave_one_out(rewards))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0])
def test_epsilon_bounds_the_ratios(epsilon):
    group = draw(MODELS["coins"](), 2000, 8, epsilon=epsilon)
    ratio = pair_ratio(group)
    assert ratio.max() <= 1 / epsilon + 1e-12
    # The density of a pair is at most N/(N-1).
    assert ratio.min() >= 1 / ((1 - epsilon) * 8 / 7 + epsilon) - 1e-12


def test_default_epsilon():
    group = draw(MODELS["coins"](), 3, 8)
    assert group.epsilon == default_epsilon(8)
    assert default_epsilon(4) == 0.5
    assert default_epsilon(2) == 1


def test_advantages_add_up_to_zero():
    listed = MODELS["table"]()
    group = draw(listed, 100, 6, epsilon=0.05)
    rewards = random_rewards(listed)[listed.index(group.tokens)].float()
    found = advantages(rewards.requires_grad_(), group)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    assert found.sum(-1).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("name", "samples", "epsilon"),
    [
        ("coins", 8, None),
        ("table", 4, 0.0),
        ("table", 16, None),
        ("ends", 2, 0.1),
        ("ends", 8, None),
        ("transformer", 6, 0.05),
        ("top-p", 4, 0.1),
    ],
)
def test_the_gradient_is_unbiased_where_leave_one_out_is_not(name, samples, epsilon):
    """On the very same rollouts."""
    listed = MODELS[name]()
    by_sequence = random_rewards(listed, seed=1)
    truth = listed.gradient(by_sequence)
    moves = listed.scores.abs().max(0).values > 1e-9
    corrected, plain = Moments(), Moments()
    for chunk in range(5):
        group = draw(listed, 160_000 // samples, samples, 100 + chunk, epsilon=epsilon)
        index = listed.index(group.tokens)
        rewards = by_sequence[index]
        scores = listed.scores[:, moves]
        for moments, weights in (
            (corrected, advantages(rewards, group)),
            (plain, leave_one_out(rewards)),
        ):
            each = torch.zeros(len(index), len(listed.tokens), dtype=torch.float64)
            each.scatter_add_(1, index, weights / samples)
            moments.add(each @ scores)
    assert corrected.agrees_with(truth[moves])
    assert plain.z(truth[moves]).max() > 2 * z_limit(int(moves.sum()))


def test_rewards_that_depend_on_parameters():
    """Both gradients by one backward pass: of the policy, and of the rewards themselves."""
    listed = Listed(Table(3, 3, seed=8), 3, eos=0)
    shared = next(listed.model.parameters())
    base = random_rewards(listed)

    def rewards(index):
        """They know the logits of the first token."""
        return base[index] * shared.sum() + shared[0, listed.tokens[index, 0]].square()

    def gradient(value):
        parameters = list(listed.model.parameters())
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)])

    everything = torch.arange(len(listed.tokens))
    truth = gradient((listed.log_probs().exp() * rewards(everything)).sum())
    moments = Moments()
    for chunk in range(150):
        group = draw(listed, 300, 4, chunk)
        index = listed.index(group.tokens)
        value = surrogate(rewards(index), listed.log_probs()[index], group)
        assert value.shape == (300,)
        torch.testing.assert_close(value, rewards(index).mean(-1))
        moments.add(gradient(value.mean()).unsqueeze(0))
    assert moments.agrees_with(truth)


def test_long_rollouts_of_a_large_vocabulary():
    """Intervals far below the smallest double; `benchmarks/sequences.py` has it larger."""
    table = 3 * torch.randn(64, 4000, generator=generator())

    def step(tokens, cache):
        return table[(tokens[:, -1] if tokens.shape[1] else tokens.new_zeros(len(tokens))) % 64], 0

    group = rollouts(step, NOTHING.expand(2, 0), 4, 400, epsilon=0.1, generator=generator())
    assert (group.log_width < -1000).all()
    ratio = pair_ratio(group)
    assert ratio.isfinite().all()
    assert ratio.max() <= 10
    assert advantages(torch.rand(2, 4), group).isfinite().all()
    assert ((group.start >= 0) & (group.start < 1)).all()


def test_without_epsilon_nothing_overflows():
    group = by_hand(1999, 2000, 0)
    ratio = pair_ratio(group)
    assert ratio.isfinite().all()
    assert advantages(torch.tensor([[1.0, 1.0]]).double(), group).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("rewards", "error", "message"),
    [
        (torch.zeros(2, 3), ValueError, r"\[P, N\] = \[3, 4\], got shape \[2, 3\]"),
        (torch.zeros(3, 4, dtype=torch.long), TypeError, "got torch.int64"),
        ([[0.0] * 4] * 3, TypeError, "got list"),
        (torch.full((3, 4), torch.nan), ValueError, "12 of 12 rewards are NaN or infinite"),
    ],
    ids=["shape", "integers", "list", "nan"],
)
def test_bad_rewards(rewards, error, message):
    group = draw(MODELS["table"](), 3)
    with pytest.raises(error, match=message):
        advantages(rewards, group)


def test_bad_log_probs():
    group = draw(MODELS["table"](), 3)
    with pytest.raises(ValueError, match=r"\[3, 4\], got shape \[3, 4, 3\]"):
        surrogate(torch.zeros(3, 4), torch.zeros(3, 4, 3), group)


def test_advantages_can_be_mapped():
    ratio = torch.ones(2, 3, 3, dtype=torch.float64)
    rewards = torch.randn(5, 2, 3, generator=generator())
    mapped = torch.func.vmap(lambda each: advantages(each, ratio))(rewards)
    torch.testing.assert_close(mapped, torch.stack([advantages(r, ratio) for r in rewards]))
