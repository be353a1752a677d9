"""Make the pages that are not written by hand, and formulas that need no script."""

import csv
import inspect
import io
import re
from contextlib import redirect_stdout, suppress
from html import unescape
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

import carms
from carms.estimators import find
from carms.lab.cli.main import COMMANDS, parse

HERE = Path(__file__).parent
# Written by benchmarks/trained.py (a row for each model and estimator) and benchmarks/shelf.py.
TRAINED = HERE / "results" / "trained.csv"
RANDOM = HERE / "results" / "shelf.csv"
# Titles of the trained models; the index shows the first of them.
MODELS = {
    "mnist-nonlinear": "MNIST, nonlinear",
    "mnist-linear": "MNIST, linear",
    "digits": "digits",
}
# Groups of the index: title, then whether an estimator is unbiased and works for any `f`.
GROUPS = {
    "Unbiased, for any `f`": (True, True),
    "Unbiased, with the gradient of `f`": (True, False),
    "Biased, with the gradient of `f`": (False, False),
    "Biased, for any `f`": (False, True),
}
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
OVERVIEW = """`pip install '.[lab]'` brings the command `carms`, which is also `python -m carms`.

A run is a directory with settings, metrics, TensorBoard events, checkpoints, result and pictures.
If a run is stopped, even by `kill -9`, the same command resumes it. It then ends with the same
numbers, bit for bit (except for times), as an uninterrupted run."""
INTRODUCTION = """# Estimators

Variance of the gradient of a trained model, the nonlinear VAE on MNIST, relative to `loorf`: at
equal evaluations of `f`, and at equal time. A dash means that it was not measured there.
[How it was measured](../results/benchmarks.md#trained-models) ·
[Choose an estimator](../how-to/choose.md)"""
SHELF = """## On small random networks

Variance at equal evaluations and step time are relative to `loorf`, the bias to the gradient.
[How it was measured](../results/benchmarks.md#random-networks)"""
ARXIV = re.compile(r"(?<![\w/>])arXiv:(\d{4}\.\d{4,5})")
REFERENCES = "references.md"
KEY = re.compile(r"\[([a-z]+(?:19|20)\d\d[a-z]*)\]")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the estimators' pages into the navigation."""
    for entry in config.nav:
        if "Estimators" in entry:
            pages = [{name: f"estimators/{name}.md"} for name in carms.available()]
            entry["Estimators"] = [entry["Estimators"], *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the pages that are not written by hand."""
    with RANDOM.open() as lines:
        random = {row["estimator"]: row for row in csv.DictReader(lines)}
    with TRAINED.open() as lines:
        trained = {(row["model"], row["estimator"]): row for row in csv.DictReader(lines)}
    for name in carms.available():
        page = estimator_page(name, random.get(name, {}), trained)
        files.append(File.generated(config, f"estimators/{name}.md", content=page))
    index = estimator_index(random, trained)
    files.append(File.generated(config, "estimators/index.md", content=index))
    commands = "\n\n".join(["# Commands", OVERVIEW, *map(command_help, ["", *COMMANDS])])
    files.append(File.generated(config, "reference/commands.md", content=commands))
    notebook = files.get_file_from_path("idea.ipynb")
    files.remove(notebook)
    text, resources = MarkdownExporter().from_filename(notebook.abs_src_path)
    files.append(File.generated(config, "idea.md", content=text))
    for image, content in resources["outputs"].items():
        files.append(File.generated(config, image, content=content))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn formulas into MathML, which browsers draw themselves; link keys and arXiv numbers."""
    html = FORMULA.sub(mathml, html)
    html = ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', html)
    if page.file.src_uri == REFERENCES:
        return KEY.sub(r'<span id="\1">[\1]</span>', html)
    target = files.get_file_from_path(REFERENCES).url_relative_to(page.file)
    return KEY.sub(rf'<a href="{target}#\1">[\1]</a>', html)


def mathml(found: re.Match[str]) -> str:
    """MathML of a formula that the Markdown extension has marked."""
    display = "block" if found[2] == "[" else "inline"
    return convert(unescape(found[3]).strip(), display=display)


def estimator_page(
    name: str, random: dict[str, str], trained: dict[tuple[str, str], dict[str, str]]
) -> str:
    """Page of an estimator: its call, a card of measurements, its docstring."""
    kind = find(name)
    options = list(inspect.signature(kind).parameters)
    samples = ", samples=8" if "samples" in options else ""
    made = carms.make(name)
    call = (
        f'estimator = carms.make("{name}"{samples})  # once: it learns\n'
        f"value = carms.expectation(f, logits, estimator)"
        if made.learned or made.stateful
        else f'value = carms.expectation(f, logits, "{name}"{samples})'
    )
    needs = "works for any `f`" if made.black_box else "needs the gradient of `f`"
    if made.requires:
        needs += f", which must be {made.requires}"
    return f"""# {name}

```python
{call}
```

{"Unbiased" if made.unbiased else "**Biased**"}; {needs}.

{card(name, random, trained)}

How it was measured: [trained models](../results/benchmarks.md#trained-models),
[random networks](../results/benchmarks.md#random-networks).
[All estimators in one table](index.md).

::: {kind.__module__}.{kind.__qualname__}
    options:
      members: false
      show_root_full_path: false
      show_root_toc_entry: false
"""


def card(name: str, random: dict[str, str], trained: dict[tuple[str, str], dict[str, str]]) -> str:
    """Table of measurements: a column for each trained model, and one for random networks."""
    models = [trained.get((model, name), {}) for model in MODELS]
    columns = [title for title, row in zip(MODELS.values(), models, strict=True) if row]
    models = [row for row in models if row]
    unbiased = carms.make(name).unbiased
    rows = {
        "variance at equal evaluations, `loorf` = 1": "variance",
        "variance at equal time, `loorf` = 1": "variance_at_equal_time",
        "time, `loorf` = 1": "time",
        "evaluations of `f`": "evaluations",
        "bias relative to the gradient": "bias",
    }
    lines = [["", *(f"trained: {title}" for title in columns), "random networks"]]
    for title, key in rows.items():
        missing = "none" if key == "bias" and unbiased else "-"
        lines.append([title, *(row.get(key) or missing for row in [*models, random])])
    return table(lines)


def estimator_index(
    random: dict[str, dict[str, str]], trained: dict[tuple[str, str], dict[str, str]]
) -> str:
    """All estimators in groups, the lowest variance on a trained model first."""
    first = next(iter(MODELS))
    figures = {name: trained.get((first, name), {}) for name in carms.available()}
    parts = [INTRODUCTION]
    for title, facts in GROUPS.items():
        names = [name for name in figures if facts_of(name) == facts]
        names.sort(key=lambda name: float(figures[name].get("variance") or "inf"))
        columns = ("variance", "variance_at_equal_time", *(() if facts[0] else ("bias",)))
        header = ["name", "idea", "variance", "at equal time", "bias"][: 2 + len(columns)]
        rows = [[link(name), summary(name), *cells(figures[name], columns)] for name in names]
        parts += [f"## {title}", table([header, *rows])]
    columns = ("variance", "bias", "evaluations", "time")
    rows = [[link(name), *cells(random.get(name, {}), columns)] for name in carms.available()]
    header = ["name", "variance", "bias", "evaluations", "step time"]
    return "\n\n".join([*parts, SHELF, table([header, *rows])])


def facts_of(name: str) -> tuple[bool, bool]:
    """Whether an estimator is unbiased, and whether it works for any `f`."""
    made = carms.make(name)
    return made.unbiased, made.black_box


def link(name: str) -> str:
    """Link from the index to the page of an estimator."""
    return f"[`{name}`]({name}.md)"


def cells(row: dict[str, str], columns: tuple[str, ...]) -> list[str]:
    """Figures of a row of measurements; a dash where there is none."""
    return [row.get(column) or "-" for column in columns]


def table(rows: list[list[str]]) -> str:
    """Markdown of a table whose first row is its header."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def command_help(name: str) -> str:
    """Help text of a command, as a terminal of 80 columns shows it."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        parse([name, "--help"] if name else ["--help"])
    return f"## carms {name}\n\n```text\n{ANSI.sub('', printed.getvalue()).strip()}\n```"


def summary(name: str) -> str:
    """First paragraph of the docstring of an estimator."""
    return " ".join(inspect.getdoc(find(name)).split("\n\n")[0].split())
