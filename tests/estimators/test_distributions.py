"""Distributions of torch in the place of logits."""

import pytest
import torch
from estimator_cases import REPLICATES, SAMPLING, TRUE_VALUE, results, untaught
from helpers import NOT_TANGENT, SOFT_POINTS, RandomTable, generator, logits_of, replicate
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import carms


@pytest.mark.parametrize("name", SAMPLING)
def test_bernoulli(name):
    probs = torch.tensor([0.2, 0.65, 0.5], dtype=torch.float64)
    f = RandomTable(3, 2, seed=5)
    value, gradient = f.expectation(torch.stack((1 - probs, probs), -1))
    estimator = untaught(name, 4)
    seen = []

    def of_bits(z, _):
        seen.append(z.detach())
        return f.of_bits(z)

    values, gradients = replicate(
        estimator,
        of_bits,
        probs.logit(),
        REPLICATES,
        wrap=lambda logits: Bernoulli(logits=logits),
    )
    assert seen[0].shape[1:] == (10_000, 3)
    if name not in SOFT_POINTS:
        assert set(seen[0].unique().tolist()) == {0.0, 1.0}
    if name in TRUE_VALUE:
        assert values.agrees_with(value)
    if estimator.unbiased:
        assert gradients.agrees_with(gradient[:, 1])


@pytest.mark.parametrize("distribution", [Categorical, OneHotCategorical])
@pytest.mark.parametrize("given", ["logits", "probs"])
def test_categorical_distributions(name, categories, distribution, given):
    f, logits = RandomTable(2, categories), logits_of(5, 2, categories)
    parameter = logits if given == "logits" else logits.softmax(-1)
    value = carms.make(name, samples=4).expectation(
        f, distribution(**{given: parameter}), generator(9)
    )
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    plain = results(carms.make(name, samples=4), f, logits)
    torch.testing.assert_close(value.detach(), plain[0], rtol=1e-12, atol=1e-14)
    if name not in NOT_TANGENT:
        torch.testing.assert_close(gradient, plain[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("distribution", [Categorical, OneHotCategorical])
def test_the_variables_of_one_example(distribution):
    f, logits = RandomTable(2, 3), logits_of(5, 2, 3)
    estimator = carms.make("carms-s", samples=4)
    given = Independent(distribution(logits=logits), 1)
    value = estimator.expectation(f, given, generator(9))
    assert torch.equal(value, estimator.expectation(f, logits, generator(9)))
    bits = Bernoulli(logits=logits_of(5, 2))
    value = estimator.expectation(RandomTable(2, 2).of_bits, Independent(bits, 1), generator(9))
    same = estimator.expectation(RandomTable(2, 2).of_bits, bits, generator(9))
    assert torch.equal(value, same)


@pytest.mark.parametrize("given", ["logits", "probs"])
def test_bernoulli_is_two_categories(name, given):
    f, logits = RandomTable(2, 2), logits_of(5, 2)
    parameter = logits if given == "logits" else logits.sigmoid()
    estimator = carms.make(name, samples=4)
    bernoulli = Bernoulli(**{given: parameter})
    draw = estimator.sample(bernoulli, generator(9))
    assert draw.z.shape == draw.indices.shape
    if name not in SOFT_POINTS:
        assert torch.equal(draw.z, draw.indices.double())
    value = carms.make(name, samples=4).expectation(f.of_bits, bernoulli, generator(9))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    both = torch.stack((torch.zeros_like(logits), logits), -1).detach().requires_grad_()
    plain = results(carms.make(name, samples=4), f, both)
    torch.testing.assert_close(value.detach(), plain[0], rtol=1e-12, atol=1e-14)
    if name not in NOT_TANGENT:
        torch.testing.assert_close(gradient, plain[1][..., 1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "given",
    [
        lambda logits: Categorical(probs=logits.softmax(-1)),
        lambda logits: Bernoulli(logits=logits[..., 1] - logits[..., 0]),
        lambda logits: (logits[:, :1], logits[:, 1:]),
    ],
)
def test_a_draw_without_gradients_keeps_its_way_to_the_logits(name, given):
    logits = logits_of(5, 2, 2)
    distribution, made = given(logits), carms.make(name, samples=4)
    with torch.no_grad():
        draw = made.sample(distribution, generator(9))
    values = torch.arange(len(draw.indices) * 5.0, dtype=torch.float64).view(-1, 5)
    if draw.differentiable is None and name != "relax":
        value = made.surrogate(draw, values.square())
        same = made.surrogate(made.sample(distribution, generator(9)), values.square())
        (found,) = torch.autograd.grad(value.sum(), logits, retain_graph=True)
        (expected,) = torch.autograd.grad(same.sum(), logits)
        assert torch.equal(found, expected)
    else:
        with pytest.raises(ValueError, match="drawn without their graph"):
            made.surrogate(draw, values)


def test_certain_probabilities_of_distributions(name, categories):
    # torch would clamp these probabilities; a category of probability zero is never drawn.
    probs = torch.zeros(500, 2, categories, dtype=torch.float64)
    probs[..., 1] = 1
    probs.requires_grad_()
    estimator = carms.make(name, samples=4)
    f = RandomTable(2, categories)
    for given in (Categorical(probs=probs), OneHotCategorical(probs=probs)):
        value = estimator.expectation(f, given)
        torch.testing.assert_close(value, f.values[1, 1].expand(500))
        assert torch.autograd.grad(value.sum(), probs)[0].isfinite().all()
    certain = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(500, 2).clone().requires_grad_()
    pair, estimator = RandomTable(2, 2), carms.make(name, samples=4)
    value = estimator.expectation(pair.of_bits, Bernoulli(probs=certain))
    torch.testing.assert_close(value, pair.values[0, 1].expand(500))
    assert torch.autograd.grad(value.sum(), certain)[0].isfinite().all()


@pytest.mark.parametrize("touch", [lambda d: None, lambda d: d.entropy(), lambda d: d.logits])
def test_probabilities_of_a_distribution_stay_what_they_are(touch):
    # Asked for logits, torch makes them of probabilities that it has clamped.
    weight = torch.tensor([1e6, 1.0, 2.0])
    categorical = Categorical(probs=torch.tensor([[0.0, 0.5, 0.5]]))
    touch(categorical)
    value = carms.expectation(lambda z: (z * weight).sum((-2, -1)), categorical, "exact")
    assert value.item() == 1.5
    bernoulli = Bernoulli(probs=torch.tensor([1.0]))
    touch(bernoulli)
    value = carms.expectation(lambda z: 1e6 * (1 - z).sum(-1), bernoulli, "exact")
    assert value.item() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_probabilities_stay_what_they_are_in_an_expanded_distribution(dtype):
    # Once torch knows probabilities and logits, `expand` forgets which of them were given.
    tiny = torch.finfo(dtype).eps / 128
    categorical = Categorical(probs=torch.tensor([[0.0, 0.5, 0.5]], dtype=dtype))
    bernoulli = Bernoulli(probs=torch.tensor([1.0, tiny], dtype=dtype).requires_grad_())
    categorical.entropy()
    bernoulli.entropy()
    estimator = carms.make("exact")
    value = estimator.expectation(lambda z: z[..., 0].sum(-1), categorical.expand((2, 1)))
    assert value.tolist() == [0, 0]
    value = estimator.expectation(lambda z: 1 - z[..., 0], bernoulli.expand((2, 2)))
    assert value.tolist() == [0, 0]
    value = estimator.expectation(lambda z: z[..., 1].double() / tiny, bernoulli.expand((2, 2)))
    torch.testing.assert_close(value, torch.ones_like(value), rtol=0.03, atol=0)
    # Those made of logits keep these, however small the probabilities are.
    logits = torch.tensor([[0.0, -90.0]], dtype=dtype)
    categorical = Categorical(logits=logits)
    categorical.entropy()
    value = estimator.expectation(lambda z: z[..., 0, 1], categorical.expand((2, 1)))
    torch.testing.assert_close(value, torch.full_like(value, -90).exp())
