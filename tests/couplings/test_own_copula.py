"""Copulas of a user, defined by what the base class asks for and nothing else."""

import pytest
import torch
from helpers import RandomTable, assert_frequencies, generator, pair_frequencies, replicate

from carms.copulas import Copula, Dirichlet, Hole
from carms.couplings import GumbelMax, InverseCDF
from carms.estimators.carms import Carms

PROBS = torch.tensor([0.21, 0.34, 0.08, 0.37], dtype=torch.float64)


class Turned(Copula):
    """A Dirichlet draw that is reflected every other time: the one fills the hole of the other."""

    def __init__(self, samples):
        super().__init__(samples)
        self.halves = Dirichlet(samples), Dirichlet(samples, reflected=True)

    @property
    def uniforms(self):
        return self.samples + 1

    def transform(self, uniforms):
        plain = self.halves[0].transform(uniforms[:-1])
        return torch.where(uniforms[-1] < 0.5, plain, 1 - plain)

    def joint(self, x, y):
        return sum(half.cdf_unchecked(x, y) for half in self.halves) / 2


class Thinned(Copula):
    """All but one sample of a Dirichlet draw, which has the smaller hole of one sample more."""

    def __init__(self, samples):
        super().__init__(samples)
        self.whole = Dirichlet(samples + 1)
        self.hole, self.pair_power = self.whole.hole, self.whole.pair_power

    @property
    def uniforms(self):
        return self.samples + 1

    def transform(self, uniforms):
        return self.whole.transform(uniforms)[1:]

    def joint(self, x, y):
        return self.whole.cdf_unchecked(x, y)


COUPLINGS = {
    "no hole": InverseCDF(Turned(4)),
    "no hole, largest first": InverseCDF(Turned(4), "largest-first"),
    "no hole, shuffles": InverseCDF(Turned(4), 3),
    "hole, all": InverseCDF(Thinned(3)),
    "hole, largest first": InverseCDF(Thinned(3), "largest-first"),
    "hole, given, epsilon": InverseCDF(Thinned(3), "given", epsilon=0.2),
    "gumbel": GumbelMax(Thinned(3)),
}


@pytest.fixture(params=list(COUPLINGS))
def coupling(request):
    return COUPLINGS[request.param]


def test_auto_orderings_follow_the_hole():
    assert InverseCDF(Turned(4)).orderings == "given"
    assert InverseCDF(Thinned(4)).orderings == "all"


def test_the_table_is_that_of_the_samples(coupling):
    table, draws = coupling.pmf(PROBS), 100_000
    torch.testing.assert_close(table.sum(-1), PROBS)
    frequency = pair_frequencies(coupling.sample(PROBS.expand(draws, 4), generator(3)), 4)
    assert_frequencies(frequency, table.expand_as(frequency), draws)


def test_ratios_are_those_of_the_table(coupling):
    indices, ratio = coupling.draw(PROBS.expand(200, 4), generator(4))
    assert (ratio > 0).all()
    table = coupling.pmf(PROBS)
    first, second = (indices[k] for k in torch.triu_indices(*[coupling.samples] * 2, 1))
    expected = PROBS[first] * PROBS[second] / table[first, second]
    differ = first != second
    for found in (ratio, coupling.pair_ratio(PROBS.expand(200, 4), indices)):
        torch.testing.assert_close(found[differ], expected[differ], rtol=1e-6, atol=0)


def test_carms_is_unbiased(coupling):
    f, probs = RandomTable(2, 4, seed=1), torch.stack((PROBS, PROBS.flip(0)))
    value, gradient = f.expectation(probs)
    values, gradients = replicate(Carms(coupling), lambda z, _: f(z), probs.log(), 40_000)
    assert values.agrees_with(value)
    assert gradients.agrees_with(gradient)


def test_a_hole_at_a_corner_may_be_smaller_than_that_of_dirichlet():
    probs = torch.full((8,), 1 / 8, dtype=torch.float64)
    for copula, enough in ((Dirichlet(3), 4), (Thinned(3), 8)):
        coupling = InverseCDF(copula, "largest-first")
        coupling.draw(probs[:enough])
        with pytest.raises(ValueError, match=f"enough for {enough} categories"):
            coupling.draw(torch.full((enough + 1,), 1.0))


def test_a_hole_elsewhere_is_refused_in_any_one_order():
    class Undisclosed(Thinned):
        def __init__(self, samples):
            super().__init__(samples)
            self.hole = Hole()

    for orderings in ("given", "largest-first", 3):
        with pytest.raises(ValueError, match="never draws some pairs of 4 categories"):
            InverseCDF(Undisclosed(3), orderings).draw(PROBS)


def test_the_pair_power_of_gumbel_max_is_a_whole_number():
    copula = Thinned(3)
    copula.pair_power = 2.5
    with pytest.raises(ValueError, match=r"joint table of GumbelMax is known for .*, not for Thin"):
        GumbelMax(copula).pmf(PROBS)


@pytest.mark.parametrize(
    ("copula", "parts"),
    [(Turned(4), [Dirichlet(4), Dirichlet(4, reflected=True)]), (Thinned(3), [Dirichlet(4)])],
    ids=str,
)
def test_the_default_lift_of_short_intervals(copula, parts):
    left = torch.tensor([0.0, 1e-4, 0.5, 0.5], dtype=torch.float64)
    width = torch.tensor([1e-4, 1e-4, 1e-3, 1e-3], dtype=torch.float64)
    lift = copula.lift(left, width)
    known = torch.stack([part.lift(left, width) for part in parts]).mean(0)
    # The last two are equal, and get any positive number.
    torch.testing.assert_close(lift[:-1], known[:-1], rtol=1e-6, atol=1e-6)
    assert lift[-1].isfinite()
    assert (lift > 0).all()
