"""What holds for many estimators at once."""

import doctest
import inspect
import itertools
import re

import pytest
import torch
from helpers import (
    BINARY_ONLY,
    LEARNED,
    curved,
    expectation,
    generator,
    gradient_of,
    logits_of,
    replicate,
)

import carms


@pytest.mark.parametrize("name", carms.available())
def test_a_docstring_has_the_facts_and_an_example(name):
    kind = carms.estimators.find(name)
    text = inspect.getdoc(kind)
    (found,) = (each for each in doctest.DocTestFinder().find(kind) if each.name == kind.__name__)
    assert any(f'"{name}"' in example.source for example in found.examples)
    if name != "exact":
        assert re.search(r"\b[Uu]nbiased" if kind.unbiased else r"\b[Bb]iased", text)
        assert re.search(r"References:\n.*\(\d{4}\) \[", text)


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if not carms.make(n, samples=4).black_box]
)
def test_an_f_that_autograd_does_not_see_through(name):
    logits = logits_of(5, 2, 3)
    message = r"\) needs a differentiable f, but its values .* autograd sees; loorf takes any f"
    with pytest.raises(ValueError, match=message):
        expectation(lambda z: z.argmax(-1).double().sum(-1), logits, name, samples=4)


@pytest.mark.parametrize("name", carms.available())
def test_samples_can_be_viewed_as_a_matrix(name):
    """Many models begin with ``z.view(-1, D * C)``, which needs contiguous samples."""
    categories = 2 if name in BINARY_ONLY else 3
    logits = torch.randn(600, 2, categories, requires_grad=True)

    def f(z):
        return z.view(-1, 2 * categories).square().sum(-1).view(z.shape[:-2])

    expectation(f, logits, name, samples=4).sum().backward()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gumbel-softmax", {"temperature": 0.0}, "temperature must be positive and finite, got 0"),
        ("rebar", {"temperature": -1.0}, "temperature must be positive and finite, got -1"),
        ("gapped-st", {"gap": -1.0}, "gap must be finite and not negative, got -1"),
        ("gr-mc", {"draws": 0}, "draws must be at least 1, got 0"),
        ("direct-argmax", {"epsilon": 0.0}, "epsilon must be finite and not zero, got 0"),
        ("finite-difference", {"step": 0.0}, "step must be positive and finite, got 0"),
        ("disarm-tree", {"tree": "oak"}, "tree is 'balanced' or 'stick-breaking', got 'oak'"),
        ("vimco", {}, r"vimco is for the importance-weighted bound.*carms\.importance_bound"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        carms.make(name, **options)


def test_a_whole_shelf_is_compared():
    weight = torch.randn(12, 8, generator=generator(1), dtype=torch.float64)
    out = torch.randn(8, generator=generator(2), dtype=torch.float64)

    def two_layers(z):
        return (z.flatten(-2) @ weight).tanh() @ out

    names = [n for n in carms.available() if n not in (*BINARY_ONLY, "exact")]
    table = carms.compare(two_layers, logits_of(3, 4), names, samples=4, replicates=30).to_dict()
    assert list(table) == names
    # Soft points are all distinct; of the hard ones, some coincide.
    assert 2 < table["muprop"]["evaluations"] < 5
    assert 5 < table["rebar"]["evaluations"] < 8
    assert table["unord"]["evaluations"] == 4
    for name in names:
        assert table[name]["variance"] > 0
        if carms.make(name, samples=4).unbiased:
            assert table[name]["bias"] < 6 * table[name]["standard_error"], name


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if not carms.make(n, samples=4).black_box]
)
def test_an_f_with_parameters_that_cuts_z_off(name):
    weight = logits_of(2, 3, seed=4)
    with pytest.raises(ValueError, match="autograd sees"):
        expectation(
            lambda z: (z.detach() * weight).sum((-2, -1)), logits_of(5, 2, 3), name, samples=4
        )


@pytest.mark.parametrize(
    "name",
    [n for n in carms.available() if n not in ("carms-t", "muprop", *BINARY_ONLY, *LEARNED)],
)
# From torch's own code.
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_forward_mode_is_the_backward_mode(name):
    logits, direction = logits_of(3, 2, 3).detach(), logits_of(3, 2, 3, seed=1).detach()

    def value(x):
        return carms.expectation(curved, x, name, 4, generator(2)).sum()

    _, tangent = torch.func.jvp(value, (logits,), (direction,))
    gradient = torch.func.grad(value)(logits)
    torch.testing.assert_close(tangent, (gradient * direction).sum())


# The gradient of a constant is zero on average alone for the others.
CENTRED = [n for n in carms.available() if carms.make(n, samples=4).centred]


@pytest.mark.parametrize("name", CENTRED)
def test_a_large_constant_in_a_precise_f_changes_no_gradient(name):
    logits = torch.randn(5, 2, 2, generator=generator(1), requires_grad=True)

    def f(z, constant):
        return constant + curved(z).double()

    gradients = [
        gradient_of(carms.make(name, samples=4), lambda z, c=c: f(z, c), logits) for c in (0, 1e8)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in CENTRED if carms.make(n, samples=4).unbiased])
@pytest.mark.parametrize("samples", [2, 6])
def test_a_large_constant_in_single_precision_changes_no_gradient(name, samples):
    # Values of f are multiples of a sixteenth, at the probabilities too: none is rounded.
    binary = name in BINARY_ONLY
    probs = torch.tensor([0.75, 0.25] if binary else [0.25, 0.5, 0.25])
    logits = probs.log().expand(200, 2, -1).clone().requires_grad_()

    def f(z, constant):
        first, second = (z * torch.arange(0.0, 2 * len(probs), 2)).sum(-1).unbind(-1)
        return first * second + first + constant

    gradients = [
        gradient_of(carms.make(name, samples=samples), lambda z, c=c: f(z, c), logits)
        for c in (0, 1e6)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-3)


# Those that leave nothing to chance.
@pytest.mark.parametrize(
    ("name", "categories"),
    [
        *itertools.product(("exact", "indecater", "local-expectation"), (2, 3)),
        ("measure-valued", 2),
    ],
)
@pytest.mark.parametrize("top", [0, 1, -1])
def test_an_all_but_certain_category_in_single_precision(name, top, categories):
    logits = torch.linspace(0, 0.5, categories)
    logits[top] = 14.7
    values = torch.tensor([1.0, -2.0, 0.7])[:categories]

    def gradient(x):
        x = x.unsqueeze(0).requires_grad_()
        estimator = carms.make(name, samples=2)
        return gradient_of(estimator, lambda z: (z * values.to(z)).sum((-2, -1)), x)

    precise = gradient(logits.double())
    torch.testing.assert_close(gradient(logits).double(), precise, rtol=2e-6, atol=0)


@pytest.mark.parametrize("name", carms.available())
def test_the_largest_logits_there_are(name):
    options = {"temperature": 0.1} if name in ("gapped-st", "rebar", "reinmax", "relax") else {}
    for row in ([3e38, -3e38], [3e38, 3e38], [-3e38, -3e38], [3e38, 2.9e38]):
        logits = torch.tensor([row, [0.0, 1.0]]).expand(4, 2, 2).clone().requires_grad_()
        value = carms.make(name, samples=4, **options).expectation(curved, logits, generator())
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        assert value.isfinite().all()
        assert gradient.isfinite().all()


def jumps(z, *_):
    """One number at each corner, and steps between them."""
    return curved(z.round())


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if carms.make(n, samples=4).unbiased]
)
def test_only_what_says_so_needs_an_f_without_jumps(name):
    estimator = carms.make(name, samples=2)
    probs = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    exact = gradient_of(carms.make("exact"), jumps, probs.log().requires_grad_())
    if not estimator.requires:
        _, gradients = replicate(estimator, jumps, probs.log(), 20_000)
        assert gradients.agrees_with(exact)
        return
    with pytest.warns(UserWarning, match=rf"{estimator.requires}.*relax and carms-s take any f"):
        _, gradients = replicate(estimator, jumps, probs.log(), 20_000)
    assert not gradients.agrees_with(exact)


def test_a_single_sample_is_enough_for_the_warning_of_jumps():
    logits = torch.zeros(2, 3, requires_grad=True)
    with pytest.warns(UserWarning, match="as flat as a step") as told:
        carms.expectation(
            lambda z: (z[..., 0] > 0.9).sum(-1) + 0 * z.sum((-2, -1)),
            logits,
            "rebar",
            1,
            generator(),
        ).backward()
    assert told[0].filename == __file__


def test_f_may_write_on_what_it_is_given():
    logits = logits_of(5, 2, 3)

    def clean(indices):
        return indices.double().square().sum(-1)

    def dirty(indices):
        values = clean(indices)
        indices.zero_()
        return values

    gradients = []
    for f in (clean, dirty):
        value = carms.expectation(f, logits, "carms-s", 4, generator(1), one_hot=False)
        gradients.append(torch.autograd.grad(value.sum(), logits)[0])
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", [n for n in carms.available() if n != "exact"])
def test_no_variables_at_all(name):
    categories = 2 if name in BINARY_ONLY else 3
    logits = torch.zeros(4, 0, categories, requires_grad=True)
    value = expectation(lambda z: z.sum((-2, -1)) + 2, logits, name, samples=4)
    torch.testing.assert_close(value, torch.full((4,), 2.0))
