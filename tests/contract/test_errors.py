"""Bad input: one exception, which shows what came and what was expected."""

import numpy as np
import pytest
import torch
from helpers import BINARY_ONLY, PAIRS, expectation, rows
from torch.distributions import Bernoulli, Categorical, Independent

import carms
from carms.copulas import Circular, Dirichlet
from carms.couplings import BiasedGumbelMax
from carms.estimators import Carms

NAMES = carms.available()


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def one_number(z):
    return z.flatten(2).sum(-1) if z.ndim > 3 else z.flatten(1).sum(-1)


def raises(kind, match, f, logits, name="loorf", **options):
    """Exactly one error, not the consequence of another."""
    with pytest.raises(kind, match=match) as caught:
        expectation(f, logits, name, **{"samples": 4, **options})
    assert type(caught.value) is kind
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ([0.0, float("nan")], "NaN"),
        ([float("inf"), 0.0], r"\+inf"),
        ([-float("inf"), -float("inf")], "nothing but -inf"),
    ],
    ids=["nan", "inf", "-inf"],
)
def test_logits_that_are_no_distribution(name, row, what):
    logits = torch.zeros(3, 2, 2)
    logits[1, 1] = torch.tensor(row)
    message = f"logits must be finite, or -inf for categories that are never drawn; got {what}"
    raises(ValueError, message, one_number, logits, name)


def test_one_category(name):
    raises(
        ValueError,
        r"at least 2 categories, got .*\[3, 2, 1\]",
        one_number,
        torch.zeros(3, 2, 1),
        name,
    )


def test_logits_without_a_dimension_of_variables(name):
    message = r"logits must be \[\*batch, D, C\].*got shape \[3\].*logits\.unsqueeze\(-2\)"
    raises(ValueError, message, one_number, torch.zeros(3), name)


def test_scalar_bernoulli(name):
    message = r"Bernoulli must have shape \[\*batch, D\], got a scalar"
    raises(ValueError, message, one_number, Bernoulli(logits=torch.tensor(0.5)), name)


def test_integer_logits(name):
    message = r"logits must be floating point, got torch\.int64"
    raises(TypeError, message, one_number, torch.zeros(3, 2, 2, dtype=torch.int64), name)


@pytest.mark.parametrize("given", [None, [[0.0, 1.0]], "logits"])
def test_logits_of_another_type(name, given):
    message = rf"logits must be a tensor or a Categorical.*got {type(given).__name__}"
    raises(TypeError, message, one_number, given, name)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "exact"])
def test_too_few_samples(name):
    few = carms.estimators.find(name).least_samples - 1
    raises(ValueError, f"got samples={few}", one_number, torch.zeros(3, 2, 2), name, samples=few)
    with pytest.raises(ValueError, match=f"got samples={few}"):
        carms.make(name, samples=few)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_need_an_even_number_of_samples(name):
    with pytest.raises(ValueError, match=rf"{name} draws pairs.*even, got samples=5"):
        carms.make(name, samples=5)


@pytest.mark.parametrize("name", BINARY_ONLY)
def test_binary_estimators_want_two_categories(name):
    message = f"{name} is for binary variables, got 3 categories"
    raises(ValueError, message, one_number, torch.zeros(3, 2, 3), name)


def test_unreachable_pairs():
    logits = torch.zeros(3, 2, 9)
    message = "never draws some pairs of 9 categories"
    raises(ValueError, message, one_number, logits, "carms-i", orderings="largest-first")
    raises(ValueError, message, one_number, logits, "carms-i", orderings="given")


def test_too_many_configurations():
    raises(
        ValueError, r"at most 65,536 configurations.*2\^17", one_number, torch.zeros(17, 2), "exact"
    )


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("lorf", "loorf"),
        ("carms_s", "carms-s"),
        ("carmsi", "carms-i"),
        ("CARMS-S", "carms-s"),
        ("vargard", "vargrad"),
        ("RLOO", "rloo"),
    ],
)
def test_unknown_estimator_with_the_nearest_names(wrong, near):
    message = f"unknown estimator '{wrong}'.*did you mean.*{near}"
    raises(ValueError, message, one_number, torch.zeros(3, 2, 2), wrong)
    with pytest.raises(ValueError, match=message):
        carms.make(wrong)


def test_unknown_estimator_like_none_of_ours():
    with pytest.raises(ValueError, match="unknown estimator 'xyzzy'") as caught:
        carms.make("xyzzy")
    for name in (*NAMES, "rloo", "u2g"):
        assert f" {name}" in str(caught.value)


def test_unknown_option(name):
    message = f"{name} has no option colour; its options are samples"
    raises(TypeError, message, one_number, torch.zeros(3, 2, 2), name, colour=1.0)


def test_bad_options():
    with pytest.raises(ValueError, match=r"copula is one of .*circular.*got 'cyclic'"):
        carms.make("carms-i", copula="cyclic")
    with pytest.raises(ValueError, match=r"samples=4, but the copula is Circular\(samples=3\)"):
        carms.make("carms-i", samples=4, copula=Circular(3))
    with pytest.raises(ValueError, match="epsilon is a probability, got 2"):
        carms.make("carms-s", epsilon=2)
    with pytest.raises(ValueError, match=r"orderings is .*got 'none'"):
        carms.make("carms-s", orderings="none")
    with pytest.raises(
        ValueError, match="baseline is None, a number or 'running-mean', got 'mean'"
    ):
        carms.make("reinforce", baseline="mean")
    with pytest.raises(ValueError, match=r"decay must be in \[0, 1\), got 1.0"):
        carms.make("reinforce", decay=1.0)


def test_f_of_the_wrong_shape(name):
    logits, count = torch.zeros(3, 2, 2), rows(name, 4, 2, 2) or r"\d"
    expected = rf"one per sample, \[N, \*batch\] = \[{count}, 3\]"
    cases = {
        rf"\[{count}, 3, 2\]": lambda z: z.sum(-1),
        r"\[\]": lambda z: z.sum(),
        r"\[3\]": lambda z: z.sum((0, 2, 3)),
        rf"\[{count}, 3, 1\]": lambda z: z.sum((-2, -1)).unsqueeze(-1),
        r"\[1, 3\]": lambda z: z[:1].sum((-2, -1)),
    }
    for got, f in cases.items():
        raises(ValueError, f"{expected}, got shape {got}", f, logits, name)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_f_that_is_not_finite(name, bad):
    def f(z):
        values = z.sum((-2, -1))
        values[1, 2] = bad
        return values

    raises(ValueError, r"f returned NaN or infinity for 1 of \d+", f, torch.zeros(3, 2, 2), name)


@pytest.mark.parametrize("value", [1.0, None, [1.0] * 4], ids=["float", "None", "list"])
def test_f_that_returns_no_tensor(name, value):
    message = rf"f must be a tensor \[N, \*batch\] = \[\d+, 3\], got {type(value).__name__}"
    raises(TypeError, message, lambda _: value, torch.zeros(3, 2, 2), name)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool])
def test_f_that_returns_no_floats(name, dtype):
    message = rf"the values of f must be floating point, got {dtype}"
    raises(TypeError, message, lambda z: z.sum((-2, -1)).to(dtype), torch.zeros(3, 2, 2), name)


def test_f_that_took_variables_for_a_batch():
    message = r"got shape \[4, 3\]; .*D = 3 variables.*logits\.unsqueeze\(-2\)"
    raises(ValueError, message, lambda z: z[..., 0], torch.zeros(3, 2))


@pytest.mark.parametrize("samples", [2.0, "4", None, True])
def test_samples_that_are_no_whole_number(name, samples):
    with pytest.raises(TypeError, match=f"samples must be a whole number, got {samples!r}"):
        carms.make(name, samples=samples)


@pytest.mark.parametrize("two", [np.int64(2), torch.tensor(2)])
def test_whole_numbers_of_other_libraries_become_integers(two):
    coupling = BiasedGumbelMax(Dirichlet(two), extra=two)
    assert type(coupling.extra) is type(coupling.samples) is int
    assert type(Carms(coupling, groups=two).groups) is int
    assert type(carms.make("gr-mc", draws=two).draws) is int


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (None, "NoneType"),
        (4, r"4; did you mean samples=4\?"),
        (carms.make, "function"),
        (torch.zeros(2, 2), "Tensor"),
    ],
)
def test_estimator_of_another_type(wrong, got):
    message = f"^an estimator is a name or an object from carms.make, got {got}$"
    with pytest.raises(TypeError, match=message):
        carms.expectation(one_number, torch.zeros(3, 2, 2), wrong)


def test_f_and_logits_in_the_wrong_order():
    message = r"^f must be a function, got Tensor; are two arguments swapped\?$"
    raises(TypeError, message, torch.zeros(3, 2, 2), one_number)


def test_options_for_an_estimator_that_is_made_already():
    made = carms.make("carms-s", samples=4)
    with pytest.raises(TypeError, match=r"is made already; give epsilon to carms\.make"):
        carms.expectation(one_number, torch.zeros(3, 2, 2), made, epsilon=0.1)
    with pytest.raises(TypeError, match=r"is made already; give samples to carms\.make"):
        carms.expectation(one_number, torch.zeros(3, 2, 2), made, samples=64)


def test_a_state_that_would_be_lost():
    message = (
        r"^reinforce\(.* learns from call to call: make it once with "
        r"carms\.make\('reinforce', \.\.\.\) and pass the object$"
    )
    options = {"baseline": "running-mean"}
    raises(ValueError, message, one_number, torch.zeros(3, 2, 2), "reinforce", **options)


@pytest.mark.parametrize("name", ["relax", "rodeo"])
def test_parameters_that_nobody_could_train(name):
    message = rf"carms\.make\('{name}', \.\.\.\), train its parameters\(\) and pass the object$"
    with pytest.raises(ValueError, match=message):
        carms.expectation(one_number, torch.zeros(3, 2, 2), name)
    assert carms.make(name).expectation(one_number, torch.zeros(3, 2, 2)).shape == (3,)


def test_surrogate_checks_values_like_expectation(name):
    estimator = carms.make(name, samples=4)
    draw = estimator.sample(torch.zeros(3, 2, 2))
    with pytest.raises(ValueError, match=r"= \[\d+, 3\], got shape \[4\]"):
        estimator.surrogate(draw, torch.zeros(4))


def test_errors_of_f_pass_through(name):
    def f(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        expectation(f, torch.zeros(3, 2, 2), name, samples=4)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Circular(2.5), TypeError, r"samples must be a whole number, got 2\.5"),
        (lambda: carms.make("loorf", samples=True), TypeError, "whole number, got True"),
        (lambda: carms.make("loorf", samples=None), TypeError, "whole number, got None"),
        (lambda: carms.make("carms-s", orderings=True), TypeError, "orderings must be a whole"),
        (lambda: carms.make("carms-s", epsilon="0.1"), TypeError, "epsilon must be a number"),
        (lambda: carms.make("carms-i", copula=[1]), ValueError, r"copula is one of .*got \[1\]"),
        (lambda: carms.make("carms-g-biased", extra=-1), ValueError, "extra must be at least 0"),
        (lambda: carms.make("reinforce", baseline=float("nan")), ValueError, "baseline .* nan"),
        (lambda: carms.make("rebar", scale=float("nan")), ValueError, "scale .* nan"),
        (lambda: carms.make("gr-mc", draws=2.5), TypeError, "draws must be a whole number"),
        (lambda: carms.make("carms-i", samples=8, copula=Circular(4)), ValueError, "as many"),
        (
            lambda: carms.expectation(one_number, torch.zeros(2, 2), generator=0),
            TypeError,
            r"generator must be a torch\.Generator, got 0",
        ),
        (
            lambda: carms.couplings.InverseCDF(Circular(4)).pmf([0.5, 0.5]),
            TypeError,
            "probs must be a tensor .*got list",
        ),
        (
            lambda: carms.compare(one_number, torch.zeros(0, 2, 3), ["loorf"], replicates=3),
            ValueError,
            r"nothing to compare in logits of shape \[0, 2, 3\]",
        ),
    ],
    ids=range(14),
)
def test_options_of_the_wrong_kind(make, kind, message):
    with pytest.raises(kind, match=message) as caught:
        make()
    assert caught.value.__context__ is None


def test_numbers_of_numpy_are_numbers():
    four = np.int64(4)
    assert carms.make("carms-s", samples=four, epsilon=np.float64(0.1)).samples == 4
    assert carms.make("carms-s", orderings=four).coupling.orderings == 4


def test_a_sum_over_the_batch_that_overflows_is_no_error():
    logits = torch.zeros(10, 2, 2, requires_grad=True)
    value = carms.expectation(lambda z: 1e38 + 0 * z.sum((-2, -1)), logits, samples=2)
    assert torch.equal(value, torch.full((10,), 1e38))


def test_a_draw_of_another_estimator(name):
    categories = 2 if name in BINARY_ONLY else 3
    estimator, other = (carms.make(each, samples=4) for each in (name, "carms-s"))
    draw = other.sample(torch.zeros(5, 2, categories))
    with pytest.raises(ValueError, match=r"cannot use a draw of (another )?carms-s\(samples=4\)"):
        estimator.surrogate(draw, torch.zeros(4, 5))


def test_independent_over_the_batch_too():
    logits = Independent(Categorical(logits=torch.zeros(5, 3, 2)), 2)
    raises(ValueError, "got reinterpreted_batch_ndims=2", one_number, logits)
    logits = Independent(Independent(Categorical(logits=torch.zeros(5, 3, 2)), 1), 1)
    raises(ValueError, "got an Independent inside an Independent", one_number, logits)


def test_logits_in_a_list_or_of_no_dimension():
    raises(TypeError, r"got list; use tuple\(logits\)", one_number, [torch.zeros(3, 2)])
    raises(ValueError, r"got shape \[\]$", one_number, torch.zeros(()))
