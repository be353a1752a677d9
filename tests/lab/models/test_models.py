"""What the models of the lab compute, against enumeration and against slower ways."""

import itertools

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import carms
from carms.lab.data.datasets import Dataset, binarised
from carms.lab.models.completion import Completion
from carms.lab.models.likelihood import log_likelihood
from carms.lab.models.vae import DiscreteVae
from carms.lab.train.adam import Adam
from carms.lab.train.evaluation import evaluate
from carms.lab.train.variance import compare_variances, contribution_variance, gradient_variance


def tiny(seed=0):
    source = torch.Generator().manual_seed(seed)
    mean = torch.rand(5, generator=source)
    model = DiscreteVae((2, 3), "nonlinear", mean, source)
    with torch.no_grad():
        model.prior.copy_(torch.randn(2, 3, generator=source))
    return model.double(), (torch.rand(4, 5, generator=source) < 0.5).double()


def configurations_of_two():
    rows = torch.tensor(list(itertools.product(range(3), repeat=2)))
    return torch.nn.functional.one_hot(rows, 3).double()


def joint(model, image, z):
    """``log p(x, z)`` the slow way."""
    pixels = model.decoder(2 * z.flatten() - 1).sigmoid()
    likelihood = torch.where(image == 1, pixels, 1 - pixels).log().sum()
    return likelihood + (z * model.prior.log_softmax(-1)).sum()


def test_elbo_and_its_gradients_by_enumeration():
    model, images = tiny()
    points = configurations_of_two()
    total = 0.0
    for image in images:
        logits = model.encoder(image - model.mean).view(2, 3)
        for z in points:
            log_q = (z * logits.log_softmax(-1)).sum()
            total = total + log_q.exp() * (joint(model, image, z) - log_q)
    expected = torch.autograd.grad(total, [*model.parameters()])
    logits = model.logits(images)
    value = carms.expectation(model.log_weight(images, logits), logits, "exact").sum()
    torch.testing.assert_close(value, total)
    found = torch.autograd.grad(value, [*model.parameters()])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_bound_by_enumeration_and_from_below():
    model, images = tiny()
    points = configurations_of_two()
    with torch.no_grad():
        exact = torch.stack(
            [torch.stack([joint(model, image, z) for z in points]).logsumexp(0) for image in images]
        )
        many = model.bound(images, 20_000, torch.Generator().manual_seed(0))
        few = torch.stack(
            [model.bound(images, 2, torch.Generator().manual_seed(s)) for s in range(300)]
        )
    torch.testing.assert_close(many, exact, rtol=0, atol=0.02)
    assert (few.mean(0) < exact + 0.01).all()


def tiny_completion():
    source = torch.Generator().manual_seed(3)
    model = Completion((2, 3), "nonlinear", torch.rand(6, generator=source), source)
    return model.double(), (torch.rand(4, 6, generator=source) < 0.5).double()


def test_completion_by_enumeration():
    model, images = tiny_completion()
    points = configurations_of_two()
    total, likelihood = 0.0, []
    for image in images:
        upper, lower = image[:3], image[3:]
        log_q = model.encoder(upper - model.mean).view(2, 3).log_softmax(-1)
        weights = torch.stack([(z * log_q).sum().exp() for z in points])
        pixels = torch.stack([model.decoder(2 * z.flatten() - 1).sigmoid() for z in points])
        given = torch.where(lower == 1, pixels, 1 - pixels).log().sum(-1)
        total = total + (weights * given).sum()
        likelihood.append((weights * given.exp()).sum().log())
    logits = model.logits(images)
    value = carms.expectation(model.log_weight(images, logits), logits, "exact").sum()
    torch.testing.assert_close(value, total)
    parameters = [*model.parameters()]
    expected = torch.autograd.grad(total, parameters, retain_graph=True)
    for one, other in zip(torch.autograd.grad(value, parameters), expected, strict=True):
        torch.testing.assert_close(one, other)
    many = model.bound(images, 20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(many, torch.stack(likelihood).detach(), rtol=0, atol=0.02)


@pytest.mark.parametrize("pixels", [1, 6, 8, 784])
@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
def test_log_likelihood_and_its_derivatives(pixels, scale):
    source = torch.Generator().manual_seed(0)
    images = (torch.rand(4, pixels, generator=source) < 0.5).double()
    logits = scale * torch.randn(3, 4, pixels, generator=source, dtype=torch.float64)
    logits.requires_grad_()
    upstream = torch.randn(3, 4, generator=source, dtype=torch.float64)

    def slow(values):
        target = images.expand_as(values)
        return -binary_cross_entropy_with_logits(values, target, reduction="none").sum(-1)

    torch.testing.assert_close(log_likelihood(logits, images), slow(logits))
    slopes = []
    for function in (lambda values: log_likelihood(values, images), slow):
        (first,) = torch.autograd.grad((upstream * function(logits)).sum(), logits)
        (again,) = torch.autograd.grad(
            (upstream * function(logits)).sum(), logits, create_graph=True
        )
        (second,) = torch.autograd.grad(again.square().sum(), logits)
        slopes.append((first, again, second))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("network", ["linear", "nonlinear"])
@pytest.mark.parametrize("task", [DiscreteVae, Completion])
@pytest.mark.parametrize("categories", [2, 3, 4, 10])
def test_categories_are_as_good_as_one_hot_vectors(task, network, categories):
    source = torch.Generator().manual_seed(0)
    model = task((3, categories), network, torch.rand(6, generator=source), source).double()
    images = (torch.rand(2, 4, 6, generator=source) < 0.5).double()
    logits = model.logits(images)
    z = torch.randint(categories, (5, 2, 4, 3), generator=source)
    vectors = torch.nn.functional.one_hot(z, categories).double()
    torch.testing.assert_close(model.decode(z), model.decode(vectors))
    upstream = torch.randn(5, 2, 4, generator=source, dtype=torch.float64)
    slopes = []
    for given in (z, vectors):
        found = model.log_weight(images, logits)(given)
        slopes.append(torch.autograd.grad((upstream * found).sum(), [*model.decoder.parameters()]))
        torch.testing.assert_close(found, model.log_weight(images, logits)(vectors))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other)


def test_variances():
    model, images = tiny()
    images = images[:1]
    loorf = carms.make("loorf", samples=3)
    logits = model.logits(images).detach()
    many = logits.expand(40_000, 1, 2, 3).clone().requires_grad_()
    value = loorf.expectation(
        model.log_weight(images, logits), many, torch.Generator().manual_seed(0)
    )
    (rows,) = torch.autograd.grad(value.sum(), many)
    expected = rows.var(0).sum().item()
    found = gradient_variance(loorf, model, images, 1500, torch.Generator().manual_seed(1))
    assert found == pytest.approx(expected, rel=0.15)
    both = {"loorf": loorf, "exact": carms.make("exact")}
    first, second = compare_variances(model, images, both, 500, seed=2)
    assert abs(first.variance - expected) < 6 * first.error
    assert second.variance < 1e-12


def test_the_objective_holds_the_logits_of_hard_samples_fixed():
    model, images = tiny()
    logits = model.logits(images).detach().requires_grad_()
    gradients = [
        torch.autograd.grad(carms.expectation(f, logits, "exact").sum(), logits)[0]
        for f in (
            model.objective(images, logits, carms.make("loorf")),
            model.log_weight(images, logits),
        )
    ]
    torch.testing.assert_close(*gradients)
    z = torch.nn.functional.one_hot(logits.argmax(-1), 3).to(logits.dtype).unsqueeze(0)
    for name, reached in (("loorf", False), ("gumbel-softmax", True)):
        values = model.objective(images, logits, carms.make(name))(z)
        (slope,) = torch.autograd.grad(values.sum(), logits, allow_unused=True)
        assert (slope is not None) == reached


def test_measuring_a_variance_teaches_nothing():
    model, images = tiny()
    estimator = carms.make("reinforce", samples=3, baseline="running-mean")
    before = {key: value.clone() for key, value in estimator.state_dict().items()}
    gradient_variance(estimator, model.float(), images.float(), 3, torch.Generator())
    assert estimator.training
    for key, value in estimator.state_dict().items():
        assert torch.equal(before[key], value)


def test_the_mean_of_the_contributions_is_the_gradient():
    logits = torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    for name in ("loorf", "carms-s", "reinforce"):
        estimator = carms.make(name, samples=4)
        draw = estimator.sample(logits)
        values = torch.randn(4, 5, dtype=torch.float64)
        (expected,) = torch.autograd.grad(estimator.surrogate(draw, values).sum(), logits)
        found = estimator.contributions(draw, values).mean(0)
        torch.testing.assert_close(found, expected)


def test_contributions_of_independent_samples_vary_as_if_they_were_apart():
    model, images = tiny_completion()
    stream = torch.Generator().manual_seed(0)
    loorf = carms.make("loorf", samples=50)
    apart = contribution_variance(loorf, model, images, stream)
    whole = gradient_variance(loorf, model, images, 200, stream)
    assert apart / 50 == pytest.approx(whole, rel=0.4)


def test_binarised_pixels_have_their_probability():
    pixels = torch.tensor([0, 1, 128, 254, 255], dtype=torch.uint8).expand(200_000, 5)
    ones = binarised(pixels, torch.Generator().manual_seed(0)).double().mean(0)
    expected = pixels[0].double() / 255
    error = (expected * (1 - expected) / 200_000).sqrt()
    assert ((ones - expected).abs() <= 5 * error).all()


def test_adam_is_that_of_torch_bit_for_bit():
    ours, theirs = (
        [torch.ones(3, 2).requires_grad_(), torch.ones(4).requires_grad_()] for _ in "ab"
    )
    unused = torch.ones(2).requires_grad_()
    optimiser = Adam([*ours, unused], 0.01)
    reference = torch.optim.Adam(theirs, 0.01, eps=1e-7, fused=True)
    for step in range(7):
        if step == 4:  # as after a restart
            state = {name: value.clone() for name, value in optimiser.state().items()}
            optimiser = Adam([*ours, unused], 0.01)
            optimiser.restore(state)
        for parameter, other in zip(ours, theirs, strict=True):
            parameter.grad = (step + 1) * parameter.detach().cos() - 0.3
            other.grad = parameter.grad.clone()
        optimiser.step()
        reference.step()
    for parameter, other in zip(ours, theirs, strict=True):
        assert torch.equal(parameter, other)
    assert torch.equal(unused, torch.ones(2))


def test_evaluation_is_of_all_training_and_all_test_images():
    class Counting:
        """Its bound of an image is how many ones that has."""

        mean = torch.zeros(4)

        def bound(self, images, samples, stream):
            assert samples == 7
            return images.sum(-1)

    # Certain pixels: nothing is left to chance.
    ones = torch.tensor([[0, 0, 0, 0], [0, 255, 0, 255], [255, 255, 255, 255]], dtype=torch.uint8)
    train, valid, test = ones[1:].repeat(60, 1), ones[:1], ones[[0, 1]].repeat(15, 1)
    told = []
    found = evaluate(
        Counting(), Dataset(train, valid, test, side=2), 7, 0, lambda *args: told.append(args)
    )
    error = [one.float().div(255).sum(-1).std().item() / len(one) ** 0.5 for one in (train, test)]
    assert found == {
        "train_log_likelihood": 3.0,
        "train_standard_error": pytest.approx(error[0]),
        "test_log_likelihood": 1.0,
        "test_standard_error": pytest.approx(error[1]),
    }
    assert told == [(50, 150), (100, 150), (120, 150), (150, 150)]


def test_the_error_of_a_variance_is_that_of_the_mean_of_its_groups(monkeypatch):
    values = iter(range(10))
    monkeypatch.setattr(
        "carms.lab.train.variance.gradient_variance", lambda *args: float(next(values))
    )
    model, images = tiny()
    loorf = carms.make("loorf", samples=3)
    (found,) = compare_variances(model, images, {"loorf": loorf}, 500, seed=0)
    assert found.variance == 4.5
    assert found.error == pytest.approx((sum((k - 4.5) ** 2 for k in range(10)) / 9 / 10) ** 0.5)
