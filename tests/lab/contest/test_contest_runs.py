"""The plan of the contest, and its runs."""

from dataclasses import replace

import pytest
from small_contest import LOWER, SLOPES, TASK, MadeUp

from carms.lab.contest.plan import chosen_rates, expected_runs, missing_runs
from carms.lab.contest.results import Run
from carms.lab.contest.running import result_of
from carms.lab.contest.task import Judged
from carms.lab.contest.times import seconds_of_run


def run_all(task, results):
    """Train until nothing is missing."""
    while missing := missing_runs(task, results):
        results |= {run: result_of(task, run) for run in missing}
    return results


def test_all_trials_come_before_final_runs_and_seeds_take_turns():
    trials = missing_runs(TASK, {})
    assert {run.kind for run in trials} == {"trial"}
    assert len(trials) == 4 * 3 * 2
    results = {run: result_of(TASK, run) for run in trials}
    finals = missing_runs(TASK, results)
    assert [run.seed for run in finals] == sorted(run.seed for run in finals)
    assert not {run.seed for run in finals} & {run.seed for run in trials}
    assert {run.estimator for run in finals if run.seed == 0} == {"loorf", "good", "bad"}


def test_the_best_rate_is_chosen_and_one_that_failed_is_out():
    results = {run: result_of(TASK, run) for run in missing_runs(TASK, {})}
    rates = chosen_rates(TASK, results)
    assert rates == {"loorf": 2.0, "good": 2.0, "bad": 2.0, "lost": None}
    broken = Run("trial", "good", 2.0, 1000)
    results[broken] = replace(results[broken], error="diverged")
    assert chosen_rates(TASK, results)["good"] == 1.0


def test_the_lowest_score_chooses_the_rate_where_lower_is_better():
    results = {run: result_of(LOWER, run) for run in missing_runs(LOWER, {})}
    assert chosen_rates(LOWER, results)["loorf"] in (1.0, 3.0)


def test_an_entry_has_no_rate_before_its_trials_are_over():
    first = missing_runs(TASK, {})[0]
    assert chosen_rates(TASK, {first: result_of(TASK, first)}) == {}


def test_nothing_is_missing_in_the_end():
    results = run_all(TASK, {})
    # An entry that fails at every rate has no final runs.
    assert expected_runs(TASK, {}) == dict.fromkeys(SLOPES, 3 * 2 + 6)
    assert expected_runs(TASK, results) == {**expected_runs(TASK, {}), "lost": 3 * 2}
    assert len(results) == sum(expected_runs(TASK, results).values())


def test_a_trial_is_judged_by_validation_and_a_final_run_by_test():
    assert result_of(TASK, Run("trial", "loorf", 2.0, 0)).scores == (6,)
    assert result_of(TASK, Run("final", "loorf", 2.0, 0)).scores == (102, 104, 106)


def test_the_model_with_the_best_validation_score_so_far_counts():
    class Overfitting(MadeUp):
        def judge(self):
            return {2: Judged(1.0, 10.0), 4: Judged(3.0, 20.0), 6: Judged(2.0, 30.0)}[self.steps]

    run = Run("final", "loorf", 1.0, 0)
    assert result_of(replace(TASK, start=Overfitting), run).scores == (10, 20, 20)
    assert result_of(replace(LOWER, start=Overfitting), run).scores == (10, 10, 10)


def test_divergence_is_a_result():
    found = result_of(TASK, Run("final", "lost", 2.0, 1))
    assert found.error == "diverged: the objective is nan at step 3"
    assert len(found.scores) == 1


ERRORS = (
    ValueError("of f"),
    ValueError("one-hot samples would take at least 99 GB of memory"),
    RuntimeError("of f"),
    FloatingPointError(),
)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_a_step_is_a_result(error):
    class Failing(MadeUp):
        def step(self):
            raise error

    assert result_of(replace(TASK, start=Failing), Run("final", "loorf", 1.0, 0)).error


def test_a_machine_without_memory_is_no_result():
    class Large(MadeUp):
        def step(self):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(RuntimeError, match="allocate memory"):
        result_of(replace(TASK, start=Large), Run("final", "loorf", 1.0, 0))


def test_a_judgement_that_is_not_a_number_is_a_failure():
    class Undefined(MadeUp):
        def judge(self):
            return Judged(1.0, float("nan"))

    found = result_of(replace(TASK, start=Undefined), Run("final", "loorf", 1.0, 0))
    assert found.error.startswith("diverged: the judgement is")


def test_the_forecast_of_a_run_is_positive():
    assert seconds_of_run(TASK, "loorf") > 0
