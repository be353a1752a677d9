"""Directories that somebody made to do harm, beside a good one."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from carms.lab.runs.settings import Settings
from carms.lab.sweep.grid import run_name
from hunt.attempts import Attempt, Lab
from hunt.children import Ended, run
from hunt.runs import SETTINGS, Undisturbed, differences, snapshot

__all__ = ["hostile_directories"]

FILES = ("config.json", "metrics.jsonl", "result.json", "samples.png")
# Seconds after which a command counts as hanging.
PATIENCE = 20.0
# It must not get out of the file it is in.
SECRET = "a sentence that is nobody's business"
ESCAPE = "\x1b]0;title\x07\x1b[31m"
NAMES = {
    "an escape": ESCAPE,
    "a formula": "$\\frac{$",
    "a lone surrogate": "\ud800",
    "200,000 letters": "a" * 200_000,
    "markup": "[red]</script><script>alert(1)</script>",
    "a spreadsheet's formula": "=1+1",
}
# By name: the key of a file, and its value as JSON.
VALUES = {
    "config.json": {
        **{f"dataset {name}": ("dataset", json.dumps(text)) for name, text in NAMES.items()},
        **{f"estimator {name}": ("estimator", json.dumps(text)) for name, text in NAMES.items()},
        "dataset a list": ("dataset", "[1]"),
        "dataset a number": ("dataset", "1"),
        "dataset null": ("dataset", "null"),
        "options not strings": ("options", "[[1]]"),
        "an option out of range": ("options", '["hidden=-1"]'),
        "an option of much memory": ("options", '["hidden=200000000"]'),
        "steps of 400 digits": ("steps", "9" * 400),
        "rate not a number": ("rate", "NaN"),
        "many categories": ("categories", "1000000000"),
        "a deep list": ("seed", "[" * 100_000 + "]" * 100_000),
        "5,000 digits": ("seed", "9" * 5000),
    },
    "result.json": {
        "versions a list": ("versions", "[1]"),
        "versions with an escape": ("versions", json.dumps({ESCAPE: ESCAPE})),
        "a likelihood of 1e308": ("test_log_likelihood", "1.7e308"),
        "a likelihood not a number": ("test_log_likelihood", "NaN"),
        "a step of another run": ("step", "1"),
        "seconds a string": ("training_seconds", '"x"'),
    },
}
LINES = {
    "a list": "[]",
    "a step that is a word": '{"step": "x"}',
    "5,000 bytes": json.dumps({"step": 100, "filler": "x" * 5000}),
    "1.7e308": json.dumps(
        {"step": 100, "objective": 1.7e308, "gradient_variance": 1.7e308, "milliseconds": 1.7e308}
    ),
    "not a number": '{"step": 100, "objective": NaN, "milliseconds": 1}',
    "not text": "\udcff",
    "half a line": '{"step": 100',
    "a deep list": "[" * 100_000,
}

Harm = Callable[[Path, Path], None]
"""Changes a run's directory; the second path is a folder outside."""


def hostile_directories(lab: Lab) -> Iterator[Attempt]:
    """``report``, ``plot``, ``evaluate`` and ``sweep`` of a good run beside a hostile one."""
    good, bad = lab.tasks["vae"], lab.other
    for name in _harms():
        for command in ("html", "csv", "plot", "evaluate", "sweep"):
            yield partial(_meet, good, bad, name, command)


def _meet(good: Undisturbed, bad: Undisturbed, name: str, command: str, folder: Path) -> str | None:
    outside, tree = folder / "outside", folder / "runs"
    outside.mkdir()
    (outside / "secret.json").write_text(json.dumps({"dataset": SECRET}))
    settings = [Settings(**SETTINGS, seed=seed) for seed in range(2)]
    paths = [tree / run_name(one) for one in settings]
    for whole, path in zip((good, bad), paths, strict=True):
        shutil.copytree(whole.path, path, ignore=shutil.ignore_patterns("tensorboard"))
    if command == "sweep":
        # Both are left to be finished, but for a harm to the result itself.
        (paths[0] / "result.json").unlink()
        if "result.json" not in name:
            (paths[1] / "result.json").unlink()
    _harms()[name](paths[1], outside)
    before, others = snapshot(tree), snapshot(outside)
    ended, page = _read(command, paths[1], tree, folder)
    lost = _judge(command, ended, page)
    if lost is None and snapshot(outside) != others:
        lost = "changes files outside"
    if lost is None and command == "sweep":
        lost = differences(good.path, paths[0])
        lost = lost and f"the good run is {lost} ({ended})"
        if lost is None and ended.status == 0:
            lost = differences(bad.path, paths[1])
    elif lost is None and snapshot(tree) != before:
        lost = "changes the runs"
    return lost and f"carms {command}, {name}: {lost}"


def _read(command: str, bad: Path, tree: Path, folder: Path) -> tuple[Ended, str]:
    """How a command ends, and the page that it writes."""
    page = folder / "page"
    if command == "sweep":
        grid = folder / "grid.toml"
        lines = {**SETTINGS, "seed": [0, 1]}.items()
        grid.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in lines))
        words = ["sweep", str(grid), "--out", str(tree), "--workers", "1"]
    elif command == "plot":
        words = ["plot", str(tree), "--out", str(folder / "curves.png")]
    elif command == "evaluate":
        words = ["evaluate", str(bad)]
    else:
        words = ["report", str(tree), "--format", command, "--out", str(page)]
    ended = run(words, folder, patience=PATIENCE)
    return ended, page.read_text() if page.exists() else ""


def _judge(command: str, ended: Ended, page: str) -> str | None:
    """What is wrong with the end of a command: a bad run may not stop ``report`` or ``plot``."""
    printed = ended.output + ended.errors
    stopped = ended.status != 0 and not (command in ("evaluate", "sweep") and ended.refused)
    if stopped or not ended.quiet:
        return str(ended)
    if SECRET in printed + page:
        return "lets a secret out"
    if "\x1b" in printed:
        return "lets an escape out"
    if command == "html" and "<script>alert" in page:
        return "lets a script out"
    if command == "csv" and any(cell[:1] == "=" for cell in page.replace("\n", ",").split(",")):
        return "has a cell that is a formula"
    return None


def _harms() -> dict[str, Harm]:
    found: dict[str, Harm] = {}
    for file in FILES:
        for name, replace in REPLACEMENTS.items():
            found[f"{name} as {file}"] = partial(_replace, file, replace)
        for name, content in CONTENTS.items():
            found[f"{name} in {file}"] = partial(_write, file, content)
    for file, values in VALUES.items():
        for name, (key, value) in values.items():
            found[f"{name} in {file}"] = partial(_put, file, key, value)
    for name, line in LINES.items():
        found[f"{name} in metrics.jsonl, last"] = partial(_append, line)
    found["a directory that is above itself"] = lambda run, outside: os.symlink("..", run / "loop")
    found["a directory with an escape"] = lambda run, outside: _deeper(run, ESCAPE)
    found["a directory that is not text"] = lambda run, outside: _deeper(run, "\udcff\udcfe")
    found["a directory of 255 letters"] = lambda run, outside: _deeper(run, "$" * 255)
    return found


def _deeper(run: Path, name: str) -> None:
    """Another run with the same settings inside, under a name."""
    os.mkdir(run / name)
    shutil.copy(run / "config.json", run / name)


def _socket(path: Path, outside: Path) -> None:
    # The name of a socket must be short.
    here = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


REPLACEMENTS: dict[str, Harm] = {
    "a FIFO": lambda path, outside: os.mkfifo(path),
    "a socket": _socket,
    "a directory": lambda path, outside: path.mkdir(),
    "a link to endless zeros": lambda path, outside: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path, outside: path.symlink_to(path.name),
    "a link to nothing": lambda path, outside: path.symlink_to(outside / "nothing"),
    "a link to a secret": lambda path, outside: path.symlink_to(outside / "secret.json"),
}
CONTENTS = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"1",
    "bytes that are not text": b"\xff\xfe\x00",
    "a deep list": b"[" * 100_000,
}


def _checksum_of(path: Path) -> Path:
    """The file that would give the harm away."""
    return path.with_name(f"{path.name}.sha256")


def _replace(file: str, replace: Harm, run: Path, outside: Path) -> None:
    _checksum_of(run / file).unlink(missing_ok=True)
    (run / file).unlink()
    replace(run / file, outside)


def _write(file: str, content: bytes, run: Path, outside: Path) -> None:
    _checksum_of(run / file).unlink(missing_ok=True)
    (run / file).write_bytes(content)


def _put(file: str, key: str, value: str, run: Path, outside: Path) -> None:
    """Change one value; the text is put in by hand, as it need not be JSON."""
    _checksum_of(run / file).unlink(missing_ok=True)
    data = {**json.loads((run / file).read_text()), key: "HERE"}
    (run / file).write_text(json.dumps(data).replace('"HERE"', value))


def _append(line: str, run: Path, outside: Path) -> None:
    with (run / "metrics.jsonl").open("a", errors="surrogateescape") as file:
        file.write(line + "\n")
