"""The examples run, only shorter."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
CONTESTANTS = "carms-s", "loorf", "gumbel-softmax"


def run(*command: str) -> str:
    command = [sys.executable, EXAMPLES / command[0], *command[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_shelf():
    assert run("shelf.py", "--replicates", "4").count("straight-through") == 2


def short(program: str, steps: int, out: Path) -> str:
    """A contest with one seed: nothing can be clear, and there is a picture."""
    printed = run(program, "--steps", str(steps), "--seeds", "1", "--out", str(out))
    assert out.read_bytes().startswith(b"\x89PNG")
    assert printed.count("seed 0: ") == 3
    assert printed.count("leads") == printed.count("of 1 seeds: not clear") == 2
    return printed


def score_of(estimator: str, printed: str) -> float:
    return float(printed.split(f"{estimator}, seed 0: ")[1].split()[0])


def test_routing(tmp_path):
    printed = short("routing.py", 100, tmp_path / "routing.png")
    assert "lower is better" in printed
    assert score_of("straight-through", printed) < 0.33  # that of the mean colour


def test_control(tmp_path):
    printed = short("control.py", 40, tmp_path / "control.png")
    assert "mean return, higher is better" in printed
    assert -10 < score_of("carms-s", printed) < 0


def test_rollouts(tmp_path):
    printed = short("rollouts.py", 20, tmp_path / "rollouts.png")
    for method in ("carms", "rloo", "grpo"):
        assert 0 <= score_of(method, printed) <= 1


def test_trl_advantages():
    assert "step 2: mean reward" in run("trl_advantages.py", "--steps", "2")


def test_ranking(tmp_path):
    printed = short("ranking.py", 10, tmp_path / "ranking.png")
    assert "NDCG@5, higher is better" in printed
    assert 0.3 < score_of("carms", printed) < 1


def test_conv_vae(tmp_path):
    picture = tmp_path / "digits.png"
    printed = run("conv_vae.py", "--steps", "5", "--seeds", "1", "--out", str(picture))
    assert [printed.count(f"{name}, seed 0: -") for name in CONTESTANTS] == [1, 1, 1]
    assert printed.count(" leads ") == 2
    assert picture.stat().st_size > 0


def test_feature_selection(tmp_path):
    picture = tmp_path / "pixels.png"
    printed = run("feature_selection.py", "--steps", "5", "--seeds", "1", "--out", str(picture))
    contestants = "carms-t", "loorf", "relaxed"
    assert [printed.count(f"{name}, seed 0: ") for name in contestants] == [1, 1, 1]
    assert "leads random" in printed or "random leads" in printed
    assert picture.stat().st_size > 0


def test_episodes(tmp_path):
    printed = short("episodes.py", 6, tmp_path / "episodes.png")
    assert "mean return, higher is better" in printed
    assert printed.count("after ") == 3
    for method in ("carms", "rloo", "returns"):
        assert -1 < score_of(method, printed) < 4
