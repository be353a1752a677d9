"""Grids of runs."""

import os
import subprocess
import sys

import pytest

from carms.lab.sweep.grid import expand, read_grid, run_name


def test_the_grids_of_the_paper():
    for name, count in (("paper-vae", 450), ("paper-complete", 225), ("short-vae", 72)):
        runs = read_grid(name)
        assert len({run_name(run) for run in runs}) == count
        assert {run.steps for run in runs} == {10**5 if name == "short-vae" else 10**6}


def test_options_are_lists_by_nature():
    one = expand({"estimator": "carms-i", "options": ["orderings=largest-first", "epsilon=0.1"]})
    assert [run.options for run in one] == [("orderings=largest-first", "epsilon=0.1")]
    two = expand({"estimator": "carms-i", "options": [["orderings=largest-first"], []]})
    assert [run.options for run in two] == [("orderings=largest-first",), ()]


GIGANTIC = "".join(f"{name} = {[*range(2, 1002)]}\n" for name in ("categories", "seed", "batch"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "there is no setting colour; there are batch, categories, "),
        ("categoris = 3", r"there is no setting categoris; did you mean categories\?"),
        ("seed = []", "a list in it is empty"),
        ("seed = [1, 1]", "the same run twice"),
        ("rate = [1, 1.0]", "the same run twice"),
        ("estimator = ['loorf', 'rloo']", "the same run twice"),
        ("steps = 0", "steps must be at least 1"),
        ("estimator = 'lorf'", "did you mean loorf"),
        ("options = ['colour=red']", "carms-s has no option colour"),
        ("seed = ", "Invalid value"),
        pytest.param(GIGANTIC, "has 1,000,000,000 runs, more than 10,000", id="many runs"),
        pytest.param("seed = " + "[" * 5000, "nested too deeply", id="deep"),
        pytest.param("seed" + ".a" * 10**5 + " = 1", "more than 16,384 bytes", id="large"),
    ],
)
def test_a_bad_grid_is_one_error(tmp_path, text, message):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_grid(str(path))


def test_a_grid_is_utf_8_in_every_locale(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text("steps = 50  # f\xfcnfzig\n", "utf-8")
    code = "import sys; from carms.lab.sweep.grid import read_grid; print(*read_grid(sys.argv[1]))"
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        text=True,
        env={**os.environ, **ascii_only},
    )
    assert "steps=50," in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("nothing.toml", "contest, contest/TASK or a TOML file; there is no nothing.toml"),
        ("contst", "there is no contst; did you mean contest?"),
    ],
)
def test_an_unknown_grid_is_refused(name, ending):
    with pytest.raises(ValueError, match="a grid is paper-vae, paper-complete, ") as caught:
        read_grid(name)
    assert str(caught.value).endswith(ending)
