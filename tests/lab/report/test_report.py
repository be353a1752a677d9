"""Tables of runs, and the page about them, also as a browser sees it."""

import csv
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from carms.lab.cli.console import PlainConsole
from carms.lab.cli.report import Report
from carms.lab.cli.train import Complete, Vae
from carms.lab.report.inventory import list_runs
from carms.lab.report.page import make_page
from carms.lab.report.sheets import to_latex, to_markdown
from carms.lab.report.tables import make_tables, missing_tables, to_csv, to_sheet
from carms.lab.runs.command_line import command_of
from carms.lab.runs.gather import gather
from carms.lab.runs.settings import Settings

HOSTILE = "<script>alert(1)</script><img src=x onerror=window.hacked=1>"
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)


def write_run(path, found=None, lines=4, versions=None, **settings):
    """A directory as a run leaves it; ``found`` are its log likelihoods if it is finished."""
    settings = Settings(**{"steps": 40, "log_every": 10, "rate": 1e-3} | settings)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(settings.to_json()))
    with (path / "metrics.jsonl").open("w") as file:
        for step in range(1, lines + 1):
            line = {
                "step": step * settings.log_every,
                "objective": -100 + step + settings.seed / 7,
                "gradient_variance": (1 + settings.seed) / step,
                "test_bound": -101 + step,
                "milliseconds": 2.5,
            }
            file.write(json.dumps(line) + "\n")
    if found is not None:
        result = {
            "step": settings.steps,
            "train_log_likelihood": found[0],
            "test_log_likelihood": found[1],
            "training_seconds": 1.5,
            "versions": versions or {"carms": "0.1.0", "torch": "2.13.0"},
        }
        (path / "result.json").write_text(json.dumps(result))
        (path / "samples.png").write_bytes(PICTURE)
    return settings


PAPER = {"network": "linear", "categories": 3}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Two estimators with three seeds and one, one that is not finished, and one of digits."""
    path = tmp_path_factory.mktemp("runs")
    for seed, found in enumerate([(-105.0, -104.0), (-105.5, -104.5), (-106.0, -105.25)]):
        write_run(path / f"loorf-{seed}", found, estimator="loorf", seed=seed, **PAPER)
    write_run(path / "deep" / "er" / "unord", (-104.0, -106.0), estimator="unord", **PAPER)
    write_run(path / "carms-s", lines=2, **PAPER)
    write_run(path / "digits", (-20.0, -21.0), dataset="digits", task="complete")
    return path


def row_of(tables, estimator, part="train", **where):
    where = {"dataset": "dynamic-mnist"} | where
    (table,) = [
        table
        for table in tables
        if table.part == part and all(getattr(table, k) == v for k, v in where.items())
    ]
    (row,) = [row for row in table.rows if (row.categories, row.estimator) == (3, estimator)]
    return row


def test_numbers_of_a_table(directory):
    tables = make_tables(gather([directory]).runs)
    loorf = row_of(tables, "loorf")
    assert loorf.values == [-105.0, -105.5, -106.0]
    assert loorf.mean == pytest.approx(-105.5)
    assert loorf.deviation == pytest.approx(0.5)
    assert str(loorf.paper) == "-105.64 +- 0.23"
    assert loorf.difference == pytest.approx(0.14 / (0.5**2 + 0.23**2) ** 0.5)
    unord = row_of(tables, "unord")
    assert (unord.mean, unord.deviation, unord.difference) == (-104.0, None, None)
    assert [unord.best, loorf.best] == [True, False]
    assert [row_of(tables, name, "test").best for name in ("unord", "loorf")] == [False, True]
    assert unord.paper_best
    assert not loorf.paper_best


def test_what_is_not_there_says_so(directory):
    runs = gather([directory]).runs
    tables = make_tables(runs)
    partial = row_of(tables, "carms-s")
    assert partial.mean is None
    assert partial.partial == "seed 0 at step 20 of 40"
    text = to_markdown(to_sheet(tables[0]))
    assert "| 3 | carms-i | no runs | 0 | -105.34 ± 0.25 |" in text
    assert "| 3 | carms-s | no finished run | 0 | not in the paper |" in text
    assert "| 3 | loorf | -105.500 ± 0.500 | 3 | -105.64 ± 0.23 | +0.25 |" in text
    assert "| 3 | unord | **-104.000** | 1 | **-105.23 ± 0.23** |  |" in text
    assert "vae, dynamic-mnist, linear" not in missing_tables(runs)
    assert "complete, omniglot, nonlinear" in missing_tables(runs)
    digits = to_sheet(tables[-1])
    assert "The paper has no such table." in digits.note
    assert "paper" not in digits.headings


def test_only_runs_that_may_be_compared_compete(tmp_path):
    for name, changes in {
        "a": {"estimator": "loorf"},
        "b": {"estimator": "carms-s"},
        "c": {"estimator": "loorf", "steps": 80},
        "d": {"estimator": "carms-i", "options": ("orderings=one",)},
    }.items():
        mean = -30 - ord(name) / 1e7
        write_run(tmp_path / name, (mean, mean), dataset="digits", **changes)
    rows = make_tables(gather([tmp_path]).runs)[0].rows
    found = {(row.estimator, row.settings): row.best for row in rows}
    # They look alike with three digits; the best is the best nevertheless.
    assert found == {
        ("loorf", "steps 40"): True,
        ("carms-s", "steps 40"): False,
        ("carms-i", "orderings=one, steps 40"): False,
        ("loorf", "steps 80"): False,
    }
    printed = list(csv.DictReader(to_csv(make_tables(gather([tmp_path]).runs)).splitlines()))
    assert printed[0]["settings"] == "rate 0.001, orderings=one, steps 40"
    assert float(printed[0]["mean"]) == -30 - ord("d") / 1e7


def test_names_are_not_markup(tmp_path):
    name = r"a_b & c|d% \x {1} *s* `t` <u>"
    write_run(tmp_path / "run", (-1.0, -2.0), dataset=name)
    table = make_tables(gather([tmp_path]).runs)[0]
    assert r"a\_b \& c\textbar{}d\% \textbackslash{}x \{1\} *s*" in to_latex(to_sheet(table))
    assert r"a\_b &amp; c\|d% \\x \{1\} \*s\* \`t\` &lt;u&gt;" in to_markdown(to_sheet(table))
    assert next(csv.DictReader(to_csv([table]).splitlines()))["dataset"] == name


@pytest.mark.parametrize(
    ("name", "start"),
    [("html", "<!DOCTYPE html>"), ("markdown", "**vae"), ("csv", "task,"), ("latex", "% needs")],
)
def test_formats(directory, tmp_path, monkeypatch, capsys, name, start):
    monkeypatch.chdir(tmp_path)
    Report((directory,), format=name).run(Console(soft_wrap=True))
    (written,) = tmp_path.iterdir()
    assert written.read_text("utf-8").startswith(start)
    assert f"written to {written.name}" in capsys.readouterr().out


def test_the_same_run_twice_counts_once(tmp_path, directory):
    write_run(tmp_path / "again", lines=3, estimator="loorf", **PAPER)
    runs, problems = gather([directory, tmp_path, directory / "deep"])
    assert len(runs) == 6
    (problem,) = problems
    assert f"{tmp_path / 'again'}: the same settings and seed as" in problem


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{", "not the settings of a run"),
        ("config.json", "[1]", "not the settings of a run"),
        ("config.json", '{"name": "other"}', "not the settings of a run"),
        ("config.json", '{"options": [], "seed": "x"}', "seed must be int, got 'x'"),
        ("config.json", '{"options": [], "estimator": "<b>"}', "unknown estimator '<b>'"),
        ("config.json", "[" * 100_000, "not the settings of a run"),
        ("metrics.jsonl", '{"step": 10, "objec', "1 bad (line 1"),
        ("metrics.jsonl", '{"step": 10, "milliseconds": NaN}', "milliseconds is nan"),
        ("metrics.jsonl", "\udcff", "left out"),
        ("result.json", "{}", "not a result"),
        ("result.json", "nothing", "not a result"),
    ],
)
def test_damage_is_named_and_passed_over(tmp_path, capsys, name, text, message):
    write_run(tmp_path / "good", (-1.0, -2.0), dataset="digits", seed=1)
    write_run(tmp_path / "[/bad]", (-1.0, -2.0), dataset="digits")
    (tmp_path / "[/bad]" / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    Report((tmp_path,), tmp_path / "report.html").run(Console(soft_wrap=True))
    said = capsys.readouterr().out
    assert str(tmp_path / "[/bad]" / name) in said
    assert message in said
    assert "left out, with reasons" in (tmp_path / "report.html").read_text()


def test_names_of_files_need_not_be_text(tmp_path, capsys):
    path = tmp_path / os.fsdecode(b"\xff [red] $name")
    write_run(path / "good", (-1.0, -2.0), dataset="digits")
    (path / "config.json").write_text("{")
    Report((tmp_path,), tmp_path / "report.html").run(PlainConsole())
    assert r"\udcff [red] $name/config.json: not the settings" in capsys.readouterr().out
    assert r"\udcff [red] $name/good" in (tmp_path / "report.html").read_text("utf-8")


def test_no_runs_is_one_line(tmp_path):
    command = [sys.executable, "-m", "carms", "report", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"no run in {tmp_path}: give run directories" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(task="complete", dataset="omniglot", upright=False, seed=3),
        Settings(estimator="carms-i", options=("orderings=one", "epsilon=0.25"), rate=3e-4),
        Settings(precision="bfloat16", latents=7, samples=4, network="linear", eval_every=5000),
    ],
)
def test_commands_make_the_run_again(settings):
    words = shlex.split(command_of(settings, Path("a b/c")))
    command = tyro.cli({"vae": Vae, "complete": Complete}[words[1]], args=words[2:])
    assert command.settings == settings
    assert command.out == Path("a b/c")


def page_of(*directories):
    return make_page(gather(directories), "carms report")


def without_plotly(page):
    return re.sub(r"<script>/\*\*\n\* plotly.js.*?</script>", "", page, flags=re.DOTALL)


def test_the_page_has_it_all(directory):
    page = without_plotly(page_of(directory))
    assert len(page) < 200_000
    assert "<strong>\N{MINUS SIGN}104.000</strong>" in page
    assert "seed 0 at step 20 of 40" in page
    assert "No runs for these tables of the paper: vae, dynamic-mnist, nonlinear;" in page
    assert page.count('src="data:image/png;base64,') == 3
    assert "torch" in page
    assert "carms vae --network linear --categories 3 --estimator loorf --steps 40" in page
    panels = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    titles = [plot["title"] for plot in panels[0]]
    assert [title.split()[0] for title in titles] == ["objective", "bound", "variance", "variance"]
    loorf = next(curve for curve in panels[0][0]["curves"] if curve["name"] == "loorf")
    assert loorf["seeds"] == [3] * 4
    assert loorf["y"] == pytest.approx([-99 + i + 1 / 7 for i in range(4)], abs=1e-3)
    assert loorf["high"][0] == pytest.approx(-99 + 2 / 7, abs=1e-3)


def test_a_mean_is_of_the_seeds_that_have_come_so_far(tmp_path):
    write_run(tmp_path / "a", lines=4)
    write_run(tmp_path / "b", lines=2, seed=1)
    page = without_plotly(page_of(tmp_path))
    (objective, *_, cost) = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])[0]
    assert objective["curves"][0]["seeds"] == [2, 2, 1, 1]
    assert cost["clouds"][0]["partial"] == [True, True]
    assert cost["clouds"][0]["y"] == [
        pytest.approx(statistics.median([1 / 3, 1 / 4]), rel=1e-5),
        pytest.approx(1.0),
    ]


@pytest.fixture(scope="module")
def hostile(directory, tmp_path_factory):
    """The good runs, and one that would do harm from everywhere it can."""
    path = tmp_path_factory.mktemp("hostile")
    shutil.copytree(directory, path / "good")
    evil = path / HOSTILE.replace("/", "\N{FULLWIDTH SOLIDUS}")
    versions = {HOSTILE: HOSTILE}
    for name in ("one", "two"):
        write_run(evil / name, (-1.0, -2.0), dataset=HOSTILE + name, versions=versions)
    (path / HOSTILE[:8]).mkdir()
    (path / HOSTILE[:8] / "config.json").write_text(json.dumps({HOSTILE: 1}))
    out = path / "report.html"
    Report((path,), out).run(Console(soft_wrap=True, quiet=True))
    return out


def test_nothing_from_a_run_is_markup(hostile):
    page = without_plotly(hostile.read_text())
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


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs Debian's chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"):
        options.add_argument(f"--{flag}")
    for flag in ("background-networking", "component-update", "sync"):
        options.add_argument(f"--disable-{flag}")
    options.add_argument("--window-size=1280,900")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver)
    with webdriver.Chrome(options, service) as started:
        yield started


def plots(browser, ready="return document.querySelectorAll('.plot .legendtoggle').length > 0"):
    """The places of plots, once the first is drawn."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 120).until(lambda driver: driver.execute_script(ready))
    return browser.find_elements("css selector", ".plot")


def test_in_a_browser(browser, hostile):
    browser.get(hostile.as_uri())
    browser.execute_script("document.querySelector('.plot').scrollIntoView()")
    first = plots(browser)[0]
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.hacked") is None
    entries = browser.get_log("performance")
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    # The browser's own pages ask for others.
    own = [one["request"]["url"] for one in sent if one["documentURL"] == hostile.as_uri()]
    assert [url for url in own if not url.startswith(("data:", "blob:"))] == [hostile.as_uri()]

    # In another one, that stands beside it, too.
    hidden = (
        "return document.querySelectorAll('.plot')[{}].data.some(t => t.visible === 'legendonly')"
    )
    assert not browser.execute_script(hidden.format(0))
    first.find_element("css selector", ".legendtoggle").click()
    plots(browser, hidden.format(0))
    plots(browser, hidden.format(1))
    first.find_element("css selector", ".legendtoggle").click()
    plots(browser, f"return !({hidden.format(1).removeprefix('return ')})")
    assert browser.get_log("browser") == []


def column(browser, number):
    return browser.execute_script(
        "return [...document.querySelector('table').tBodies[0].rows]"
        f".map(row => row.cells[{number}].dataset.value ?? null)"
    )


def test_tables_sort_by_click_and_by_key(browser, hostile):
    browser.get(hostile.as_uri())
    heads = browser.find_elements("css selector", "table:first-of-type th button")
    names = [head.text for head in heads]
    ours = names.index("ours")
    heads[ours].click()
    values = [float(value) for value in column(browser, ours) if value]
    assert values == sorted(values)
    assert column(browser, ours)[len(values) :] == [None] * (
        len(column(browser, ours)) - len(values)
    )
    heads[ours].send_keys("\n")
    assert [float(value) for value in column(browser, ours) if value] == values[::-1]
    assert heads[ours].find_element("xpath", "..").get_attribute("aria-sort") == "descending"
    estimator = names.index("estimator")
    heads[estimator].send_keys(" ")
    assert column(browser, estimator) == sorted(column(browser, estimator))


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_follows_light_and_dark(browser, hostile, width, scheme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(hostile.as_uri())
    browser.execute_script("document.querySelector('.plot').scrollIntoView()")
    first = plots(browser)[0]
    root = browser.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth, innerWidth]"
    )
    assert root[0] == root[1]
    assert root[2] == width
    back = browser.execute_script("return arguments[0].layout.paper_bgcolor", first)
    assert back == {"light": "#ffffff", "dark": "#14171b"}[scheme]
    assert first.size["width"] <= width


def test_of_two_unfinished_runs_the_further_one_counts(tmp_path):
    for name, lines in (("a", 1), ("b", 3), ("c", 2)):
        write_run(tmp_path / name, lines=lines)
    runs, problems = gather([tmp_path])
    assert [(run.path.name, run.step) for run in runs] == [("b", 30)]
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"step": 40, "objective": 1, "milliseconds": 1.0}', "step 40 after step 40"),
        ('{"step": 30, "objective": 1, "milliseconds": 1.0}', "step 30 after step 40"),
        ('{"step": 50, "objective": 1, "milliseconds": Infinity}', "milliseconds is inf"),
        ('{"step": 50, "objective": 1.7e308, "milliseconds": 1}', r"objective is 1.7e+308"),
        ('{"step": 50, "objective": 1}', "it has no milliseconds"),
        ('{"step": 61, "objective": 1, "milliseconds": 1}', "step 61 of 60"),
        ('{"step": "x"}', "step 'x' of 60"),
        ("[]", "it is no object"),
        ("[" * 5000, "it is nested too deeply"),
        ("x" * 70_000, "it has more than 65,536 bytes"),
    ],
)
def test_a_bad_line_of_metrics_is_left_out(tmp_path, line, message):
    write_run(tmp_path / "run", steps=60)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    (run,), (problem,) = gather([tmp_path])
    assert list(run.metrics["milliseconds"].steps) == [10, 20, 30, 40]
    assert f"bad (line 5: {message}), left out" in problem


def test_a_result_of_fewer_steps_is_none(tmp_path):
    write_run(tmp_path / "run", (-1.0, -2.0))
    path = tmp_path / "run" / "result.json"
    path.write_text(path.read_text().replace('"step": 40', '"step": 30'))
    (run,), (problem,) = gather([tmp_path])
    assert run.result is None
    assert "not a result (step 30 of 40)" in problem


def test_the_list_of_runs_has_their_minutes(tmp_path):
    write_run(tmp_path / "run", (-1.0, -2.0))
    path = tmp_path / "run" / "result.json"
    path.write_text(path.read_text().replace('"training_seconds": 1.5', '"training_seconds": 90.0'))
    sheet = list_runs(gather([tmp_path]).runs)
    found = dict(zip(sheet.headings, (field.text for field in sheet.rows[0]), strict=True))
    assert (found["minutes"], found["ms a step"], found["step"]) == ("1.5", "2.50", "40")
