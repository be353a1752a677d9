"""The page about runs, as text."""

import json
import re
import shlex
import statistics
import time
from pathlib import Path

import pytest
import tyro
from written_runs import page_of, write_good_runs, write_hostile_page, write_run

from carms.lab.cli.train import Complete, Vae
from carms.lab.runs.command_line import command_of
from carms.lab.runs.settings import Settings


def without_plotly(page):
    return re.sub(r"<script>/\*\*\n\* plotly.js.*?</script>", "", page, flags=re.DOTALL)


def test_the_page_has_it_all(tmp_path):
    page = without_plotly(page_of(write_good_runs(tmp_path)))
    assert len(page) < 200_000
    assert "<strong>\N{MINUS SIGN}104.583 ± 0.629</strong>" in page
    assert page.index("104.583") < page.index("Log likelihoods are bounds")
    assert page.index('class="plot"') < page.index("A line is the mean")
    assert "seed 0 at step 20 of 40" in page
    assert "No runs for these tables of the paper: vae, dynamic-mnist, nonlinear;" in page
    assert page.count('src="data:image/png;base64,') == 3
    assert "torch" in page
    assert "carms vae --network linear --categories 3 --estimator loorf --steps 40" in page
    panels = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    titles = [plot["title"] for plot in panels[0]]
    assert [title.split()[0] for title in titles] == ["Objective", "Bound", "Variance", "Variance"]
    assert [plot.get("range") for plot in panels[0]] == [[0, 40]] * 3 + [None]
    loorf = next(curve for curve in panels[0][0]["traces"] if curve["name"] == "loorf")
    assert loorf["seeds"] == [3] * 4
    assert loorf["y"] == pytest.approx([-99 + i + 1 / 7 for i in range(4)], abs=1e-3)
    assert loorf["high"][0] == pytest.approx(-99 + 2 / 7, abs=1e-3)


def test_a_mean_is_of_the_seeds_that_have_come_so_far(tmp_path):
    write_run(tmp_path / "a", lines=4)
    write_run(tmp_path / "b", lines=2, seed=1)
    page = without_plotly(page_of(tmp_path))
    (objective, *_, cost) = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])[0]
    assert objective["traces"][0]["seeds"] == [2, 2, 1, 1]
    assert cost["traces"][0]["partial"] == [True, True]
    assert cost["traces"][0]["y"] == [
        pytest.approx(statistics.median([1 / 3, 1 / 4]), rel=1e-5),
        pytest.approx(1.0),
    ]


def test_nothing_from_a_run_is_markup(tmp_path):
    page = without_plotly(write_hostile_page(tmp_path).read_text())
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    # Data and our own script.
    assert page.count("<script") == page.count("</script") == 2
    assert "&lt;script&gt;alert(1)" in page


def test_a_thousand_runs(tmp_path, capsys):
    grid = [
        (dataset, network, categories, estimator, seed)
        for dataset in ("dynamic-mnist", "fashion-mnist", "omniglot", "digits", "static-mnist")
        for network in ("linear", "nonlinear")
        for categories in (3, 5, 10, 20, 25)
        for estimator in ("loorf", "carms-i", "carms-g", "carms-s")
        for seed in range(5)
    ]
    for number, (dataset, network, categories, estimator, seed) in enumerate(grid):
        write_run(
            tmp_path / f"{number}",
            (-100.0 - seed, -101.0 - seed) if number % 10 else None,
            dataset=dataset,
            network=network,
            categories=categories,
            estimator=estimator,
            seed=seed,
            lines=120,
            steps=1200,
        )
    started = time.perf_counter()
    page = page_of(tmp_path)
    seconds = time.perf_counter() - started
    with capsys.disabled():
        print(f"\n{len(grid):,} runs: {len(page) / 1e6:.1f} MB in {seconds:.1f} s")
    assert len(grid) == 1000
    assert len(page) < 20e6
    assert "curves thinned to 100 of up to 120 logged steps" in page
    assert "24 of 200 are shown" in page


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(task="complete", dataset="omniglot", upright=False, seed=3),
        Settings(
            estimator="carms-i", options=("orderings=largest-first", "epsilon=0.25"), rate=3e-4
        ),
        Settings(precision="bfloat16", latents=7, samples=4, network="linear", eval_every=5000),
    ],
)
def test_commands_make_the_run_again(settings):
    words = shlex.split(command_of(settings, Path("a b/c")))
    command = tyro.cli({"vae": Vae, "complete": Complete}[words[1]], args=words[2:])
    assert command.settings == settings
    assert command.out == Path("a b/c")
