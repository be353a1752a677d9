"""Train one run of the contest."""

import math
import time
from pathlib import Path

from filelock import FileLock

from carms.lab.contest.machine import note_machine
from carms.lab.contest.results import Result, Run, add_result, read_results, results_path
from carms.lab.contest.task import Judged, Task, TaskLearner
from carms.lab.contest.tasks import TASKS

__all__ = ["reason_of", "result_of", "running_lock", "take_step", "work"]


def result_of(task: Task, run: Run) -> Result:
    """Train a run to its end, or until it diverges.

    At every judgement the model with the best validation score so far counts: early stopping.
    """
    learner = task.start(task.find(run.estimator), run.rate, run.seed)
    seconds, best, error = 0.0, list[Judged](), ""
    try:
        for step in range(1, task.steps + 1):
            started = time.process_time()
            take_step(learner)
            seconds += time.process_time() - started
            if step % task.judge_every == 0:
                judged = learner.judge()
                if not all(map(math.isfinite, judged)):
                    raise FloatingPointError(f"the judgement is {judged}")
                best.append(_better(task, judged, *best[-1:]))
    except (FloatingPointError, ValueError, RuntimeError) as problem:
        error = f"{reason_of(problem)} at step {step}"
    if run.kind == "trial":
        scores = [judged.validation for judged in best[-1:]]
    else:
        scores = [judged.test for judged in best]
    return Result(run, seconds, tuple(scores), error)


def take_step(learner: TaskLearner) -> None:
    """Take a step, of which the objective has to be a number."""
    value = learner.step()
    if not math.isfinite(value):
        raise FloatingPointError(f"the objective is {value}")


def reason_of(error: Exception) -> str:
    """Why an estimator failed, in words. A fault of the machine is raised again: to be retried."""
    if isinstance(error, RuntimeError) and "memory" in str(error):
        raise error
    if isinstance(error, FloatingPointError):
        return f"diverged: {error}"
    return f"{type(error).__name__}: {error}"


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
