"""What holds for many estimators at once."""

import pytest
import torch
from helpers import LEARNED, curved, generator, gradient_of, logits_of

import carms


@pytest.mark.parametrize(
    "name", [n for n in carms.available() if not carms.make(n, samples=4).black_box]
)
def test_an_f_that_autograd_does_not_see_through(name):
    logits = logits_of(5, 2, 3)
    with pytest.raises(ValueError, match=r"autograd sees; loorf takes any f"):
        carms.expectation(lambda z: z.argmax(-1).double().sum(-1), logits, name, samples=4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gumbel-softmax", {"temperature": 0.0}, "temperature must be positive and finite, got 0"),
        ("rebar", {"temperature": -1.0}, "temperature must be positive and finite, got -1"),
        ("gapped-st", {"gap": -1.0}, "gap must be finite and not negative, got -1"),
        ("gr-mc", {"draws": 0}, "at least 1 draw of the noise is needed, got draws=0"),
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

    names = [n for n in carms.available() if n not in ("arm", "arms", "disarm", "exact")]
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
        carms.expectation(
            lambda z: (z.detach() * weight).sum((-2, -1)), logits_of(5, 2, 3), name, samples=4
        )


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in carms.available()
        if n not in ("arm", "arms", "carms-t", "disarm", "muprop", *LEARNED)
    ],
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
@pytest.mark.parametrize(
    "name",
    [n for n in carms.available() if n not in ("rebar", "relax", "reinforce", "unord")],
)
def test_a_large_constant_in_a_precise_f_changes_no_gradient(name):
    logits = torch.randn(5, 2, 2, generator=generator(1), requires_grad=True)

    def f(z, constant):
        return constant + curved(z).double()

    gradients = [
        gradient_of(carms.make(name, samples=4), lambda z, c=c: f(z, c), logits) for c in (0, 1e8)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


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
    categories = 2 if name in ("arm", "arms", "disarm") else 3
    logits = torch.zeros(4, 0, categories, requires_grad=True)
    value = carms.expectation(lambda z: z.sum((-2, -1)) + 2, logits, name, samples=4)
    torch.testing.assert_close(value, torch.full((4,), 2.0))
