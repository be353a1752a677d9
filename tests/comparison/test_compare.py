import itertools
import time

import pytest
import torch
from helpers import RandomTable, dirichlet_probs, generator
from torch.distributions import Bernoulli, Categorical

import carms
from carms.comparison import problem as problem_module


@pytest.fixture
def problem():
    probs = dirichlet_probs(1.0, 1, 3, seed=3, floor=0.05)
    return RandomTable(1, 3, seed=1), probs.log()


def row(table, name):
    return table.to_dict()[name]


def test_unbiased_within_chance_and_biased_far_outside(problem):
    names = ["loorf", "carms-s", "carms-i", "carms-g", "carms-g-biased"]
    table = carms.compare(*problem, names, samples=3, replicates=600, generator=generator(1))
    for name in names[:-1]:
        assert row(table, name)["bias"] < 4 * row(table, name)["standard_error"]
    biased = row(table, "carms-g-biased")
    assert biased["bias"] > 10 * biased["standard_error"]


def test_exact_has_neither_bias_nor_variance(problem):
    exact = row(carms.compare(*problem, ["exact"], replicates=5), "exact")
    assert exact["bias"] < 1e-12
    assert exact["variance"] < 1e-24
    assert exact["evaluations"] == 3


def test_variance_is_that_of_all_pairs():
    """LOORF with two samples of one binary variable: all four pairs by hand."""
    p = torch.tensor([0.3, 0.7], dtype=torch.float64)
    f = torch.tensor([1.0, -0.5], dtype=torch.float64)
    chances, gradients = [], []
    for i, j in itertools.product(range(2), repeat=2):
        gradient = torch.zeros(2, dtype=torch.float64)
        gradient[i] += (f[i] - f[j]) / 2
        gradient[j] += (f[j] - f[i]) / 2
        chances.append(p[i] * p[j])
        gradients.append(gradient)
    chance, gradient = torch.stack(chances).unsqueeze(-1), torch.stack(gradients)
    mean = (chance * gradient).sum(0)
    squares = (gradient - mean).square().sum(-1, keepdim=True)
    variance = (chance * squares).sum()
    replicates = 2000
    spread = ((chance * squares.square()).sum() - variance.square()).sqrt() / replicates**0.5
    table = carms.compare(
        lambda z: z[..., 0, :] @ f,
        p.log().unsqueeze(0),
        ["loorf"],
        samples=2,
        replicates=replicates,
        generator=generator(2),
    )
    found = row(table, "loorf")
    assert abs(found["variance"] - variance) < 5 * spread
    assert found["standard_error"] == pytest.approx((found["variance"] / replicates) ** 0.5)


def test_variance_is_the_sample_variance(problem):
    """The very gradients that the generator gives, and the usual formula."""
    f, logits = problem
    table = carms.compare(f, logits, ["carms-s"], 4, replicates=25, generator=generator(5))
    source, gradients = generator(5), []
    for _ in range(25):
        leaf = logits.clone().requires_grad_()
        carms.expectation(f, leaf, "carms-s", 4, source).backward()
        gradients.append(leaf.grad)
    gradients = torch.stack(gradients)
    found = row(table, "carms-s")
    assert found["variance"] == pytest.approx(gradients.var(0).sum().item(), rel=1e-9)
    truth = f.expectation(logits.exp())[1]
    assert found["bias"] == pytest.approx((gradients.mean(0) - truth).norm().item(), rel=1e-9)


def test_distinct_evaluations():
    def f(z):
        return z[..., 0, 0]

    even = torch.zeros(2000, 1, 2)
    table = carms.compare(f, even, ["loorf", "arms", "exact"], samples=2, replicates=25)
    # Antithetic samples of an even coin always differ; independent ones every other time.
    assert row(table, "arms")["evaluations"] == 2
    assert row(table, "exact")["evaluations"] == 2
    assert row(table, "loorf")["evaluations"] == pytest.approx(1.5, abs=0.02)
    certain = torch.tensor([0.0, -torch.inf]).expand(3, 1, 2)
    table = carms.compare(f, certain, ["loorf", "arms", "carms-s"], samples=4, replicates=5)
    assert all(values["evaluations"] == 1 for values in table.to_dict().values())


@pytest.mark.parametrize("one_hot", [True, False])
def test_distinct_evaluations_are_of_whole_configurations(one_hot):
    # Two fair coins, two samples: they agree in a quarter of all cases.
    logits = torch.zeros(2000, 2, 2)
    table = carms.compare(
        lambda z: z.float().flatten(2).sum(-1),
        logits,
        ["loorf", "exact"],
        samples=2,
        replicates=25,
        one_hot=one_hot,
    )
    assert row(table, "loorf")["evaluations"] == pytest.approx(1.75, abs=0.02)
    assert row(table, "exact")["evaluations"] == 4


def test_bernoulli():
    f = RandomTable(2, 2)
    probs = torch.tensor([0.3, 0.6], dtype=torch.float64)
    given = Bernoulli(probs=probs)
    names = ["loorf", "disarm", "arms", "carms-s"]
    table = carms.compare(f.of_indices, given, names, 4, replicates=500, generator=generator(3))
    for name in names:
        assert row(table, name)["bias"] < 4 * row(table, name)["standard_error"]
        assert 1 <= row(table, name)["evaluations"] <= 4
    exact = carms.compare(f.of_indices, given, ["exact"], replicates=3)
    assert row(exact, "exact")["bias"] < 1e-12


def test_categorical(problem):
    f, logits = problem
    from_logits = carms.compare(f, logits, ["loorf"], replicates=20, generator=generator(1))
    from_distribution = carms.compare(
        f, Categorical(logits=logits), ["loorf"], replicates=20, generator=generator(1)
    )
    expected = row(from_logits, "loorf")["variance"]
    assert row(from_distribution, "loorf")["variance"] == pytest.approx(expected, rel=1e-9)


def test_f_may_close_over_a_graph_and_the_logits():
    parameter = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    weight = parameter.exp() * torch.arange(3.0, dtype=torch.float64)
    logits = (weight.detach() * 0.5).expand(2, 3).clone().requires_grad_()

    def f(z):
        return ((z * weight).sum(-1) - (z * logits.log_softmax(-1)).sum(-1)).sum(-1)

    names = ["loorf", "carms-s"]
    table = carms.compare(f, logits, names, replicates=500, generator=generator(4))
    for name in names:
        assert row(table, name)["bias"] < 4 * row(table, name)["standard_error"]
    assert parameter.grad is None
    assert logits.grad is None
    weight.sum().backward()
    assert parameter.grad is not None


def test_leaves_its_logits_and_the_global_stream_alone(problem):
    f, logits = problem
    kept = logits.clone()
    before = torch.get_rng_state()
    carms.compare(f, logits, ["loorf"], replicates=5, generator=generator())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(logits, kept)
    assert not logits.requires_grad


def test_works_where_gradients_are_switched_off(problem):
    with torch.no_grad():
        table = carms.compare(*problem, "loorf", replicates=20)
    assert row(table, "loorf")["variance"] > 0


def test_works_in_inference_mode(problem):
    f, logits = problem
    with torch.inference_mode():
        table = carms.compare(f, logits + 0, ["loorf", "carms-t"], replicates=5)
    assert set(table.to_dict()) == {"loorf", "carms-t"}


def test_a_sensible_choice_of_estimators(problem):
    assert {"loorf", "carms-s", "carms-i"} <= set(carms.compare(*problem, replicates=3).to_dict())
    binary = carms.compare(RandomTable(1, 2), torch.zeros(1, 2), replicates=3).to_dict()
    assert {"arms", "disarm"} <= set(binary)


def test_the_usual_choice_has_only_estimators_of_that_many_samples(problem):
    assert set(carms.compare(*problem, samples=1, replicates=3).to_dict()) == {"reinforce"}
    binary = carms.compare(RandomTable(1, 2), torch.zeros(1, 2), samples=3, replicates=3).to_dict()
    assert "loorf" in binary
    assert "disarm" not in binary


def test_no_bias_where_enumeration_is_out_of_reach():
    logits = torch.zeros(20, 3)
    table = carms.compare(lambda z: z[..., 0].sum(-1), logits, ["loorf"], replicates=3)
    assert row(table, "loorf")["bias"] is None
    assert str(table).splitlines()[2].split()[2] == "-"


def test_errors(problem):
    f, logits = problem
    with pytest.raises(ValueError, match="at least 2 replicates, got replicates=1"):
        carms.compare(f, logits, ["loorf"], replicates=1)
    with pytest.raises(ValueError, match=r"unknown estimator 'lorf'.*loorf"):
        carms.compare(f, logits, ["lorf"], replicates=3)
    with pytest.raises(ValueError, match=r"at least 2 categories, got .*\[1, 1\]"):
        carms.compare(f, torch.zeros(1, 1), ["loorf"], replicates=3)
    with pytest.raises(TypeError, match=r"logits must be a tensor .* got list"):
        carms.compare(f, [[0.0, 0.0]], ["loorf"], replicates=3)
    with pytest.raises(ValueError, match=r"one per sample.* got shape \[\]"):
        carms.compare(lambda z: z.sum(), logits, ["loorf"], replicates=3)
    with pytest.raises(ValueError, match="arms is for binary variables, got 3 categories"):
        carms.compare(f, logits, ["arms"], replicates=3)


def test_a_bernoulli_of_probabilities_is_left_as_it_is():
    given = Bernoulli(probs=torch.tensor([0.0, 0.3, 1.0]))
    carms.compare(lambda z: z.sum(-1), given, ["loorf"], replicates=4)
    assert "logits" not in vars(given)


def test_milliseconds_are_milliseconds(problem):
    f, logits = problem

    def slow(z):
        time.sleep(0.02)
        return f(z)

    found = row(carms.compare(slow, logits, "loorf", replicates=6), "loorf")
    assert 20 <= found["milliseconds"] < 10_000


def test_no_bias_where_enumeration_would_take_too_much_memory(problem, monkeypatch):
    # Of three configurations, nine numbers.
    for limit, feasible in ((9, True), (8, False)):
        monkeypatch.setattr(problem_module, "LARGEST_ENUMERATION", limit)
        bias = row(carms.compare(*problem, "loorf", replicates=3), "loorf")["bias"]
        assert (bias is not None) == feasible


def test_slopes_are_compared_where_there_are_any():
    logits = torch.randn(2, 3, generator=generator(1))

    def smooth(z):
        return (z * logits).sum((-2, -1)).sin()

    def black_box(z):
        return z.argmax(-1).double().sum(-1)

    assert "carms-t" in carms.compare(smooth, logits, replicates=2).to_dict()
    assert "carms-t" not in carms.compare(black_box, logits, replicates=2).to_dict()
    numpy = carms.compare(lambda z: torch.tensor(z.numpy()[..., 0].sum(-1)), logits, replicates=2)
    assert "carms-t" not in numpy.to_dict()
    indices = carms.compare(lambda i: i.double().sum(-1), logits, replicates=2, one_hot=False)
    assert "carms-t" not in indices.to_dict()
    terms = carms.compare(lambda z: (z * logits).sum(-1), logits, replicates=2, terms=torch.eye(2))
    assert "carms-t" not in terms.to_dict()


def test_the_bias_is_measured_in_small_calls_or_not_at_all():
    sizes = []

    def f(z):
        sizes.append(len(z))
        return z[..., 0].sum(-1)

    logits = torch.zeros(4, 7)
    without = carms.compare(f, logits, "loorf", replicates=3, generator=generator(1), bias=False)
    assert max(sizes) == 8
    measured = carms.compare(f, logits, "loorf", replicates=3, generator=generator(1))
    assert max(sizes) == 1024
    assert sum(sizes) == 7**4 + problem_module.EVALUATED_AGAIN + 6 * 8
    assert row(without, "loorf")["bias"] is None
    assert row(without, "loorf")["variance"] == row(measured, "loorf")["variance"]
    found = carms.compare(f, logits, "exact", replicates=2)
    assert row(found, "exact")["bias"] < 1e-6


def test_an_f_of_the_wrong_shape_at_many_configurations():
    with pytest.raises(ValueError, match=r"one per sample.* got shape \[\]"):
        carms.compare(lambda z: z.sum(), torch.zeros(4, 7), "loorf", replicates=3)


def test_no_bias_is_claimed_where_f_is_random(problem):
    f, logits = problem
    torch.manual_seed(1)
    table = carms.compare(lambda z: f(z) + torch.randn(len(z)), logits, "loorf", replicates=200)
    assert row(table, "loorf")["bias"] is None
    assert "f has other values each time" in str(table)

    def writes(z):
        values = f(z.clone())
        z.zero_()
        return values

    table = carms.compare(writes, logits, "loorf", replicates=200)
    assert row(table, "loorf")["bias"] < 4 * row(table, "loorf")["standard_error"]


def test_looking_for_randomness_draws_nothing(problem):
    f, logits = problem
    seen = []
    for _ in range(2):
        torch.manual_seed(3)
        carms.compare(f, logits, "loorf", replicates=2, bias=not seen)
        seen.append(torch.rand(()))
    assert torch.equal(*seen)


def test_groups_that_depend_on_each_other_are_refused():
    logits = torch.zeros(1, 3, requires_grad=True)

    def f(a, b):
        return (a * b).sum((-2, -1))

    for groups, number in (
        ((logits, logits), 1),
        ((logits, 2 * logits), 1),
        ((2 * logits, logits), 0),
    ):
        with pytest.raises(ValueError, match=f"group {number} of the logits depends on"):
            carms.compare(f, groups, "loorf", replicates=2)
    both = torch.zeros(2, 3, requires_grad=True)
    encoder = both * 2
    carms.compare(f, (encoder[:1], encoder[1:]), "loorf", replicates=2)
    carms.compare(f, (logits.detach(), logits.detach()), "loorf", replicates=2)


def test_the_usual_estimators_can_be_averaged_over_in_reasonable_time():
    few, many = (
        carms.compare(lambda z: z.float().mean(-1), torch.zeros(2, c), one_hot=False, replicates=2)
        for c in (10, 400)
    )
    assert set(few.to_dict()) - set(many.to_dict()) == {"carms-i"}
