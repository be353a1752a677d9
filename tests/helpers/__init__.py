"""Independent ways of computing what the library computes, and the statistics to compare them."""

from helpers.calls import (
    assert_two_steps_are_one,
    expectation,
    expected_gradient,
    gradient_of,
    results,
)
from helpers.facts import (
    BINARY_ONLY,
    LEARNED,
    NOT_TANGENT,
    PAIRS,
    SOFT_POINTS,
    differentiates,
    named,
    rows,
    takes_slopes,
)
from helpers.problems import (
    RandomTable,
    configurations,
    curved,
    dirichlet_probs,
    generator,
    logits_of,
    network,
    polynomial,
    quadratic,
)
from helpers.replicates import (
    Moments,
    assert_frequencies,
    chi_square_chance,
    pair_frequencies,
    replicate,
    z_limit,
)
from helpers.tables import (
    dirichlet_cdf,
    exact_circular_lift,
    exact_lift,
    gaussian_cdf,
    gumbel_table,
    paper_orders,
    reflected_cdf,
    stratified_table,
    table_in_order,
)
