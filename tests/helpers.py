"""Independent ways of computing what the library computes, and the statistics to compare them."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

import carms
from carms.copulas import Circular, Dirichlet, Gaussian, Independent, Stratified
from carms.estimators.carms_t import CarmsT
from carms.estimators.families.control_variate import ControlVariate

COPULAS = {
    "independent": Independent,
    "dirichlet": Dirichlet,
    "dirichlet-reflected": partial(Dirichlet, reflected=True),
    "gaussian": Gaussian,
    "stratified": Stratified,
    "circular": Circular,
}


def named(**facts) -> tuple[str, ...]:
    """Names of all estimators of which these facts are true."""
    found = carms.available()
    for fact, value in facts.items():
        found = [name for name in found if getattr(carms.estimators.find(name), fact) == value]
    return tuple(found)


BINARY_ONLY = named(binary_only=True)
PAIRS = named(paired=True)
SOFT_POINTS = named(soft_points=True)
NOT_TANGENT = named(sums_to_zero=False)
LEARNED = named(learned=True)


def rows(name: str, samples: int, variables: int, categories: int) -> int | None:
    """At how many points an estimator evaluates ``f``, None where that is left to chance."""
    return carms.make(name, samples=samples).evaluations(variables, categories)


def expectation(f, logits, name, samples=4, generator=None, **options):
    """``carms.expectation``, also of an estimator that has to be trained first, untrained."""
    if not carms.estimators.find(name).stateful:
        return carms.expectation(f, logits, name, samples, generator, **options)
    call = {key: options.pop(key) for key in ("one_hot", "terms") if key in options}
    made = carms.make(name, samples=samples, **options).eval()
    return made.expectation(f, logits, generator, **call)


def differentiates(name: str) -> bool:
    """Whether it takes derivatives itself, which neither the compiler nor ``vmap`` allows."""
    return isinstance(carms.make(name, samples=4), ControlVariate)


def takes_slopes(name: str) -> bool:
    """Whether it makes the gradient of slopes in a way that ``torch.func`` does not transform."""
    return differentiates(name) or isinstance(carms.make(name, samples=4), CarmsT)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dirichlet_probs(concentration: float, *shape: int, seed: int = 0, floor: float = 0.0) -> Tensor:
    """``[*shape]`` probabilities in float64, none below (about) ``floor``."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet([concentration] * shape[-1], shape[:-1]).clip(min=floor)
    return torch.from_numpy(probs / probs.sum(-1, keepdims=True))


def z_limit(comparisons: int, chance: float = 1e-6) -> float:
    """The |z| that the largest of so many comparisons exceeds with probability ``chance``."""
    return -NormalDist().inv_cdf(chance / (2 * comparisons))


def assert_frequencies(frequency: Tensor, probability: Tensor, draws: int) -> None:
    """Frequencies of events in ``draws`` independent draws against their probabilities."""
    impossible = probability.abs() < 1e-12
    assert (frequency[impossible] == 0).all(), "something of probability zero was drawn"
    error = (probability * (1 - probability) / draws).clamp_min(0).sqrt()
    z = ((frequency - probability).abs() / error.clamp_min(1e-12))[~impossible]
    assert z.max() < z_limit(z.numel()), f"largest |z| is {z.max():.1f}"


def chi_square_chance(counts: Tensor, expected: Tensor) -> float:
    """Probability that counts deviate so much from their expectations by chance."""
    statistic = ((counts - expected).square() / expected).sum()
    freedom = torch.tensor((counts.numel() - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))


def pair_frequencies(indices: Tensor, categories: int) -> Tensor:
    """``[pairs of positions, C, C]``: how often ``[N, R]`` samples were ``i`` and ``j``."""
    count, draws = indices.shape
    one_hot = torch.nn.functional.one_hot(indices.T, categories).flatten(1).float()
    table = (one_hot.T @ one_hot).double() / draws
    table = table.view(count, categories, count, categories).transpose(1, 2)
    first, second = torch.triu_indices(count, count, 1)
    return table[first, second]


class RandomTable:
    """An ``f`` without structure: one random number for every configuration.

    Between the configurations it is smooth, and curved even along the edges.
    """

    def __init__(self, variables: int, categories: int, seed: int = 0) -> None:
        self.variables, self.categories = variables, categories
        self.values = torch.randn(
            [categories] * variables, generator=generator(seed), dtype=torch.float64
        )

    def of_indices(self, indices: Tensor) -> Tensor:
        return self.values[indices.long().unbind(-1)]

    def __call__(self, z: Tensor) -> Tensor:
        if not z.requires_grad:
            return self.of_indices(z.argmax(-1))
        z = z.double()
        inner = self.values.expand(*z.shape[:-2], *self.values.shape)
        for one in z.unbind(-2):
            inner = (one.view(*one.shape, *[1] * (inner.ndim - one.ndim)) * inner).sum(z.ndim - 2)
        bend = torch.sin(1.0 + torch.arange(self.categories))
        return inner + (bend * (z**3 - z)).sum((-2, -1))

    def of_bits(self, z: Tensor) -> Tensor:
        return self(torch.stack((1 - z, z), -1))

    def expectation(self, probs: Tensor) -> tuple[float, Tensor]:
        """``E f`` and its gradient with respect to the logits, for ``probs [D, C]``."""
        value, gradient = 0.0, torch.zeros_like(probs)
        for configuration in itertools.product(range(self.categories), repeat=self.variables):
            chosen = torch.zeros_like(probs)
            for variable, category in enumerate(configuration):
                chosen[variable, category] = 1
            weight = float((probs * chosen).sum(-1).prod() * self.values[configuration])
            value += weight
            gradient += weight * (chosen - probs)
        return value, gradient


def configurations(variables: int, categories: int) -> Tensor:
    """All one-hot configurations, ``[C^D, D, C]`` in float64."""
    rows = list(itertools.product(range(categories), repeat=variables))
    return torch.nn.functional.one_hot(torch.tensor(rows), categories).double()


class Moments:
    """Mean and variance over independent replicates, added in chunks."""

    def __init__(self) -> None:
        self.count, self.total, self.squares = 0, 0.0, 0.0

    def add(self, rows: Tensor) -> None:
        self.count += len(rows)
        self.total = self.total + rows.sum(0)
        self.squares = self.squares + rows.square().sum(0)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def variance(self) -> Tensor:
        return (self.squares / self.count - self.mean.square()).clamp_min(0)

    def z(self, truth: Tensor | float) -> Tensor:
        error = (self.variance / self.count).sqrt()
        return (self.mean - truth).abs() / error.clamp_min(1e-12)

    def agrees_with(self, truth: Tensor | float) -> bool:
        z = self.z(truth)
        return bool(z.max() < z_limit(z.numel()))


def replicate(estimator, f, logits, replicates, *, wrap=None, chunk=10_000, seed=0, terms=None):
    """Moments of value and gradient over replicates that are a batch dimension.

    ``f`` takes samples and the logits ``[chunk, ...]`` that they were drawn from; ``wrap`` makes
    of such logits what the estimator is given.
    """
    source, values, gradients = generator(seed), Moments(), Moments()
    for start in range(0, replicates, chunk):
        rows = min(chunk, replicates - start)
        leaf = logits.expand(rows, *logits.shape).clone().requires_grad_()
        given = wrap(leaf) if wrap else leaf
        value = estimator.expectation(lambda *z, leaf=leaf: f(*z, leaf), given, source, terms=terms)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        values.add(value.detach())
        gradients.add(gradient)
    return values, gradients


def exact_circular_lift(samples: int, a, b) -> Fraction:
    """Mean of ``N/(N-1) min(1, N d, N (1 - d))`` over two disjoint intervals ``(left, width)``.

    In rational numbers: the distance of two uniform points has a piecewise linear density, so that
    Simpson's rule on its pieces is exact.
    """
    (left_a, p), (left_b, q) = sorted((Fraction(left), Fraction(width)) for left, width in (a, b))
    gap = left_b - left_a - p
    shorter, height = min(p, q), 1 / max(p, q)

    def density(distance: Fraction) -> Fraction:
        into = min(distance - gap, gap + p + q - distance)
        return height * max(0, min(1, into / shorter))

    def slope(distance: Fraction) -> Fraction:
        return min(Fraction(1), samples * distance, samples * (1 - distance))

    step = Fraction(1, samples)
    cuts = {gap, gap + p, gap + q, gap + p + q, step, 1 - step}
    cuts = sorted(cut for cut in cuts if gap <= cut <= gap + p + q)
    total = Fraction(0)
    for low, high in itertools.pairwise(cuts):
        middle = (low + high) / 2
        ends = density(low) * slope(low) + density(high) * slope(high)
        total += (high - low) / 6 * (ends + 4 * density(middle) * slope(middle))
    return total * samples / (samples - 1)


def _dirichlet_mass(samples: int, a, b) -> Decimal:
    """Of ``(start, end)`` and ``(start, end)``, by four values of the CDF in 60 digits."""
    root = 1 / Decimal(samples - 1)

    def cdf(x: Decimal, y: Decimal) -> Decimal:
        return max(Decimal(0), x**root + y**root - 1) ** (samples - 1)

    return cdf(a[1], b[1]) - cdf(a[0], b[1]) - cdf(a[1], b[0]) + cdf(a[0], b[0])


def _stratified_mass(samples: int, a, b) -> Decimal:
    """What is left of the product of the lengths without the pairs within one stratum."""
    strata = [(Decimal(s) / samples, Decimal(s + 1) / samples) for s in range(samples)]
    parts = [
        [max(Decimal(0), min(high, end) - max(low, start)) for start, end in strata]
        for low, high in (a, b)
    ]
    shared = sum(x * y for x, y in zip(*parts, strict=True))
    return ((a[1] - a[0]) * (b[1] - b[0]) - shared) * samples / (samples - 1)


def exact_lift(name: str, samples: int, a, b) -> float:
    """The lift of two intervals ``(left, right)``, in 60 digits."""
    with localcontext(prec=60):
        a, b = ([Decimal(end) for end in interval] for interval in (a, b))
        chance = (a[1] - a[0]) * (b[1] - b[0])
        if name == "stratified":
            return float(_stratified_mass(samples, a, b) / chance)
        if name == "dirichlet-reflected":
            a, b = ([1 - interval[1], 1 - interval[0]] for interval in (a, b))
        return float(_dirichlet_mass(samples, a, b) / chance)


def paper_orders(categories: int) -> list[list[int]]:
    """For each ``i < j`` the cyclic order from ``i``, with ``j`` exchanged with the last."""
    orders = []
    for i, j in itertools.combinations(range(categories), 2):
        order = [(i + k) % categories for k in range(categories)]
        place = order.index(j)
        order[place], order[-1] = order[-1], j
        orders.append(order)
    return orders


def table_in_order(cdf, probs: list[float], order: list[int]) -> np.ndarray:
    """The joint table of inverse-CDF sampling in one order, from the CDF at its boundaries."""
    ends = [0.0, *itertools.accumulate(probs[c] for c in order)]
    ends[-1] = 1.0
    corner = np.array([[cdf(a, b) for b in ends] for a in ends])
    inner = np.diff(np.diff(corner, axis=0), axis=1)
    table = np.empty_like(inner)
    table[np.ix_(order, order)] = inner
    return table


def dirichlet_cdf(samples: int, a: float, b: float) -> float:
    root = 1 / (samples - 1)
    return max(0.0, a**root + b**root - 1) ** (samples - 1)


def reflected_cdf(samples: int, a: float, b: float) -> float:
    return a + b - 1 + dirichlet_cdf(samples, 1 - a, 1 - b)


def gaussian_cdf(samples: int, a: float, b: float) -> float:
    """By conditioning on the first normal: no integral over the correlation."""
    if a <= 0 or b <= 0:
        return 0.0
    if a >= 1 or b >= 1:
        return min(a, b)
    if samples == 2:
        return max(0.0, a + b - 1)
    rho = -1 / (samples - 1)
    normal = NormalDist()
    nodes, weights = np.polynomial.legendre.leggauss(60)
    # Uniform in probability would be singular at the ends; uniform in quantiles is smooth.
    low, high, k = -9.0, normal.inv_cdf(a), normal.inv_cdf(b)
    edges = np.linspace(low, high, 9)
    total = 0.0
    for left, right in itertools.pairwise(edges):
        for node, weight in zip(nodes, weights, strict=True):
            x = left + (right - left) * (node + 1) / 2
            inner = 0.5 * math.erfc(-(k - rho * x) / math.sqrt(2 * (1 - rho * rho)))
            total += weight * (right - left) / 2 * normal.pdf(x) * inner
    return total


def stratified_table(samples: int, probs: list[float], order: list[int]) -> np.ndarray:
    """``N/(N-1) p p' - 1/(N(N-1)) sum_s w_s w_s'``, ``w_s`` the shares of the strata."""
    ends = np.array([0.0, *itertools.accumulate(probs[c] for c in order)])
    share = np.zeros((len(probs), samples))
    for place, category in enumerate(order):
        for s in range(samples):
            low, high = max(ends[place], s / samples), min(ends[place + 1], (s + 1) / samples)
            share[category, s] = max(0.0, high - low) * samples
    p = np.array(probs)
    scale = samples / (samples - 1)
    return scale * np.outer(p, p) - share @ share.T / (samples * (samples - 1))


def gumbel_table(samples: int, probs: list[float], level: int = 60) -> np.ndarray:
    """Off-diagonal joint table of Gumbel-max under the Dirichlet copula, by tanh-sinh quadrature.

    With ``X = x^(p_max/(N-1))`` and likewise ``Y`` the integral runs over ``X + Y > 1``; there
    ``Y = 1 - X + X v``, and the endpoint singularities are left to the rule.
    """
    t = np.linspace(-3.6, 3.6, 2 * level + 1)
    inner = np.pi / 2 * np.sinh(t)
    weight = (t[1] - t[0]) * np.pi / 4 * np.cosh(t) / np.cosh(inner) ** 2
    # Both a node and its distance from one, each without cancellation.
    node, rest = 1 / (1 + np.exp(-2 * inner)), 1 / (1 + np.exp(2 * inner))
    x, x_rest = node[:, None], rest[:, None]
    y = x_rest + x * node[None, :]
    y_rest = x * rest[None, :]
    measure = weight[:, None] * weight[None, :] / y
    log_x = np.where(x < 0.5, np.log(x), np.log1p(-np.minimum(x_rest, 0.5)))
    log_y = np.where(y < 0.5, np.log(y), np.log1p(-np.minimum(y_rest, 0.5)))
    relative = np.array(probs) / max(probs)

    def power_sum(r: float) -> np.ndarray:
        """``X^r + Y^r - 1``, from the side where one of the powers is close to one."""
        if r == 1:
            return x * node[None, :]
        x_close = np.exp(r * log_y) + np.expm1(r * log_x)
        y_close = np.exp(r * log_x) + np.expm1(r * log_y)
        return np.where(y > x, y_close, x_close)

    beyond = [power_sum(r) for r in relative]
    everyone = np.prod(beyond, axis=0) ** (samples - 1)
    table = np.zeros((len(probs), len(probs)))
    for i, j in itertools.permutations(range(len(probs)), 2):
        race = np.exp(relative[i] * log_x + relative[j] * log_y) / (beyond[i] * beyond[j])
        scale = probs[i] * probs[j] * (samples - 1) ** 2 / max(probs) ** 2
        table[i, j] = scale * (everyone * race * measure).sum()
    return table


def logits_of(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=generator(seed), dtype=dtype, requires_grad=True)


def gradient_of(estimator, f, logits, seed=1):
    value = estimator.expectation(f, logits, generator(seed))
    return torch.autograd.grad(value.sum(), logits)[0]


def curved(z):
    weight = torch.linspace(-1, 1.5, z.shape[-1], dtype=z.dtype)
    return ((z * weight).sum((-2, -1)) - 0.4).square() + 3


def expected_gradient(estimator, f, probs):
    """``E g`` exactly, for estimators whose gradient depends on the hard sample alone."""
    variables, categories = probs.shape
    logits = probs.log().expand(20_000, variables, categories).clone().requires_grad_()
    draw = estimator.sample(logits, generator())
    value = estimator.surrogate(draw, f(draw.z))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    total, weight = torch.zeros_like(probs), 0.0
    for point in itertools.product(range(categories), repeat=variables):
        (rows,) = torch.where((draw.indices[0] == torch.tensor(point)).all(-1))
        chance = math.prod(probs[d, c].item() for d, c in enumerate(point))
        total += chance * gradient[rows[0]]
        weight += chance
        assert torch.equal(gradient[rows[0]], gradient[rows[-1]])
    assert math.isclose(weight, 1)
    return total


def polynomial(degree, seed=0):
    """A random polynomial of two variables of three categories, linear at degree 1."""
    weights = torch.randn(4, degree, 2, 3, generator=generator(seed), dtype=torch.float64)

    def f(z):
        inner = torch.einsum("...dc,wkdc->...wk", z, weights)
        return inner.prod(-1).sum(-1)

    return f


def network(variables, categories, seed=0):
    """A random network of two layers."""
    source = generator(seed)
    first = torch.randn(variables, categories, 16, generator=source, dtype=torch.float64)
    last = torch.randn(16, generator=source, dtype=torch.float64)

    def f(z):
        return torch.einsum("...dc,dch->...h", z, first / variables**0.5).tanh() @ last

    return f
