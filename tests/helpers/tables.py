"""Joint tables and lifts of couplings, computed in ways that the library does not use."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

import numpy as np


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
    """Probability of a pair of intervals, from four values of the CDF in 60 digits."""
    root = 1 / Decimal(samples - 1)

    def cdf(x: Decimal, y: Decimal) -> Decimal:
        return max(Decimal(0), x**root + y**root - 1) ** (samples - 1)

    return cdf(a[1], b[1]) - cdf(a[0], b[1]) - cdf(a[1], b[0]) + cdf(a[0], b[0])


def _stratified_mass(samples: int, a, b) -> Decimal:
    """Probability of a pair of intervals: their product without pairs within one stratum."""
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
    """CDF by conditioning on the first normal, without an integral over the correlation."""
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
