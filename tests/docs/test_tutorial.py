"""The program of the tutorial runs, only shorter."""

import re
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
BOUND = re.compile(r"-\d+\.\d+")
SHORTER = {"STEPS = 1000": "STEPS = 20", "replicates=500": "replicates=4"}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)


def test_blocks_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    program = "\n".join(blocks("python"))
    for long, short in SHORTER.items():
        assert long in program
        program = program.replace(long, short)
    exec(compile(program, "tutorial.md", "exec"), {"__name__": "tutorial"})
    shown = "".join(blocks("text")).splitlines()
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == shown[:2]
    assert len(printed) == len(shown)
    # Before training, the bound is the same however short it is.
    for k in (2, -2, -1):
        before, curve = ([float(x) for x in BOUND.findall(lines[k])] for lines in (shown, printed))
        assert len(curve) == len(before) == 6
        assert curve[0] == pytest.approx(before[0], abs=0.02)
        assert curve[-1] > curve[0]
    assert (tmp_path / "tutorial.png").exists()
