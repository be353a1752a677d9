"""Train one run of the contest."""

import math
import time
from pathlib import Path

from filelock import FileLock

from carms.lab.contest.machine import note_machine
from carms.lab.contest.results import Result, Run, add_result, read_results, results_path
from carms.lab.contest.task import Judged, Task
from carms.lab.contest.tasks import TASKS

__all__ = ["result_of", "running_lock", "seconds_of_run", "work"]

# Steps of a measurement of time.
WARM_UP, MEASURED = 2, 8


def result_of(task: Task, run: Run) -> Result:
    """Train a run to its end, or until it diverges.

    At every judgement the model with the best validation score so far counts: early stopping.
    """
    learner = task.start(task.find(run.estimator), run.rate, run.seed)
    seconds, best, error = 0.0, list[Judged](), ""
    try:
        for step in range(1, task.steps + 1):
            started = time.process_time()
            value = learner.step()
            seconds += time.process_time() - started
            if not math.isfinite(value):
                raise FloatingPointError(f"the objective is {value} at step {step}")
            if step % task.judge_every == 0:
                judged = learner.judge()
                if not all(map(math.isfinite, judged)):
                    raise FloatingPointError(f"the judgement is {judged} at step {step}")
                best.append(_better(task, judged, *best[-1:]))
    except FloatingPointError as problem:
        error = f"diverged: {problem}"
    except (ValueError, RuntimeError) as problem:
        if isinstance(problem, RuntimeError) and "memory" in str(problem):
            # A fault of the machine, and not of the estimator: to be tried again.
            raise
        error = f"{type(problem).__name__}: {problem}"
    if run.kind == "trial":
        scores = [judged.validation for judged in best[-1:]]
    else:
        scores = [judged.test for judged in best]
    return Result(run, seconds, tuple(scores), error)


def _better(task: Task, new: Judged, best: Judged | None = None) -> Judged:
    sign = 1 if task.higher_wins else -1
    if best is None or sign * new.validation > sign * best.validation:
        return new
    return best


def running_lock(folder: Path, task: Task) -> FileLock:
    """The lock of the one process that runs a task. A second one would train the same runs."""
    return FileLock(results_path(folder, task).with_suffix(".running.lock"))


def work(name: str, run: Run, path: Path) -> None:
    """Train a run of a task, and put what came of it into the file of the task.

    A run that fails is a result, too.
    """
    if run not in read_results(path, TASKS[name]):
        note_machine(path.parent)
        add_result(path, TASKS[name], result_of(TASKS[name], run))


def seconds_of_run(task: Task, estimator: str) -> float:
    """Processor time of a run of an entry, by a measurement of a few steps and a judgement."""
    learner = task.start(task.find(estimator), task.rates[0], 0)
    for _ in range(WARM_UP):
        learner.step()
    started = time.process_time()
    for _ in range(MEASURED):
        learner.step()
    step = (time.process_time() - started) / MEASURED
    started = time.process_time()
    learner.judge()
    return step * task.steps + (time.process_time() - started) * len(task.judged_steps)
