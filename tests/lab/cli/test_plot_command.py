"""The command that draws runs."""

import itertools
import subprocess
import sys

from small_runs import train

from carms.lab.report.blocks import make_blocks
from carms.lab.report.curves import draw_curves
from carms.lab.runs.gather import gather


def test_plot(tmp_path):
    for estimator, seed in itertools.product(("loorf", "carms-s"), (0, 1)):
        train(tmp_path / f"{estimator}-{seed}", estimator=estimator, seed=seed)
    runs = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    command = [sys.executable, "-m", "carms", "plot", *runs, "--out", tmp_path / "curves.png"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "curves.png" in done.stdout
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curves.svg").read_text().startswith("<?xml")


def test_plot_does_not_mix_what_cannot_be_compared(tmp_path):
    train(tmp_path / "runs" / "three")
    train(tmp_path / "runs" / "four", categories=4)
    train(tmp_path / "runs" / "again", seed=1)
    runs, _ = gather([tmp_path / "runs"])
    blocks = make_blocks(runs)
    assert [[len(group) for group in block.groups] for block in blocks] == [[2], [1]]
    written = draw_curves(blocks, tmp_path / "curves.v1")
    assert [path.name for path in written] == ["curves.v1.png", "curves.v1.svg"]
    assert written[1].read_text().count("4 categories") == 1
