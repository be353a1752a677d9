"""The runs of a task in one small file of comma-separated values."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock

from carms.lab.contest.task import Task
from carms.lab.runs.metrics import LARGEST
from carms.lab.runs.reading import open_regular, read_if_there
from carms.lab.runs.writing import write_atomically

__all__ = ["Kind", "Result", "Run", "add_result", "are_results", "read_results", "results_path"]

Kind = Literal["trial", "final"]
"""A trial chooses a rate, with a seed of its own; a final run is compared."""

# The largest file of results, in bytes.
_LIMIT = 1 << 26
_COLUMNS = ("kind", "estimator", "rate", "seed", "seconds", "error")


@dataclass(frozen=True)
class Run:
    """What to train: an entry of a task at a rate with a seed."""

    kind: Kind
    estimator: str
    rate: float
    seed: int


@dataclass(frozen=True)
class Result:
    """What came of a run.

    Attributes:
        run: what was trained.
        seconds: processor time of all its training steps, judgements aside.
        scores: of a final run, after each of the task's ``judged_steps``, the test score of the
            model with the best validation score so far; of a trial, its best validation score.
        error: why it failed, for instance because it diverged; empty if it did not.
    """

    run: Run
    seconds: float
    scores: tuple[float, ...]
    error: str = ""


def results_path(folder: Path, task: Task) -> Path:
    """The file of a task."""
    return folder / f"{task.name}.csv"


def are_results(path: Path) -> bool:
    """Whether a file can be read and begins like one of a task, of this version or of another."""
    start = ",".join(_COLUMNS).encode()
    try:
        with open_regular(path, _LIMIT) as file:
            return file.read(len(start)) == start
    except (OSError, ValueError):
        return False


def read_results(path: Path, task: Task) -> dict[Run, Result]:
    """All runs that ended; none if there is no file."""
    data = read_if_there(path, _LIMIT)
    if data is None:
        return {}
    columns, rows = _rows(path, data)
    steps = [str(step) for step in task.judged_steps]
    if columns != [*_COLUMNS, *steps]:
        raise ValueError(
            f"{path} has the columns {', '.join(columns)}, expected "
            f"{', '.join([*_COLUMNS, *steps])}: it is of another version of the task"
        )
    found: dict[Run, Result] = {}
    for line, fields in rows:
        try:
            result = _result(fields, steps)
            if result.run in found:
                raise ValueError("a line above has the same run")
        except ValueError as error:
            raise _damage(path, line, error) from error
        found[result.run] = result
    return found


def add_result(path: Path, task: Task, result: Result) -> None:
    """Put a result into the file of its task, in which the runs are in order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        results = {**read_results(path, task), result.run: result}
        write_atomically(path, _text(task, results.values()).encode())


def _rows(path: Path, data: bytes) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The columns of a file, and the fields of its rows with the numbers of their lines."""
    if not data.endswith(b"\n"):
        raise _damage(path, data.count(b"\n") + 1, "it is cut off")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _damage(path, data.count(b"\n", 0, error.start) + 1, error) from error
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        return next(reader), [(reader.line_num, fields) for fields in reader if fields]
    except csv.Error as error:
        raise _damage(path, reader.line_num, error) from error


def _damage(path: Path, line: int, reason: object) -> ValueError:
    return ValueError(f"{path} is damaged in line {line}: {reason}")


def _result(fields: list[str], steps: list[str]) -> Result:
    columns = [*_COLUMNS, *steps]
    if len(fields) != len(columns):
        raise ValueError(f"it does not have {len(columns)} fields")
    row = dict(zip(columns, fields, strict=True))
    kind: Kind = "trial" if row["kind"] == "trial" else "final"
    if row["kind"] != kind:
        raise ValueError(f"a run is a trial or final, got {row['kind']!r}")
    run = Run(kind, row["estimator"], float(row["rate"]), int(row["seed"]))
    # A trial has its last score alone, and a run that failed has none after that.
    filled = [step for step in steps if row[step]]
    wanted = steps[-1:] if kind == "trial" else steps
    if filled != wanted and not (row["error"] and filled == wanted[: len(filled)]):
        raise ValueError(f"there are scores of the steps {', '.join(filled) or 'none'}")
    scores = tuple(float(row[step]) for step in filled)
    if not all(abs(score) <= LARGEST for score in scores):
        raise ValueError(f"a score is not a number, or too large: {scores}")
    seconds = float(row["seconds"])
    # A run may fail in its first step, before any time is counted.
    if not 0 <= seconds <= LARGEST or not (seconds or row["error"]):
        raise ValueError(f"seconds must be positive, got {seconds}")
    return Result(run, seconds, scores, row["error"])


def _text(task: Task, results: Iterable[Result]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, *task.judged_steps])
    for result in sorted(results, key=_order):
        run = result.run
        scores = [f"{score:.5g}" for score in result.scores]
        blanks = [""] * (len(task.judged_steps) - len(scores))
        scores = [*blanks, *scores] if run.kind == "trial" else [*scores, *blanks]
        start = run.kind, run.estimator, f"{run.rate:g}", run.seed, f"{result.seconds:.4g}"
        writer.writerow([*start, result.error, *scores])
    return text.getvalue()


def _order(result: Result) -> tuple[str, str, float, int]:
    run = result.run
    return run.kind, run.estimator, run.rate, run.seed
