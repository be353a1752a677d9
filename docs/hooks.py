"""What the site has beside its pages: estimators, the notebook, formulas that need no script."""

import csv
import inspect
import io
import re
from contextlib import redirect_stdout, suppress
from html import unescape
from pathlib import Path

import torch
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

import carms
from carms.cli import COMMANDS, parse
from carms.estimators import _REGISTRY

HERE = Path(__file__).parent
# Written by benchmarks/shelf.py.
MEASURED = HERE / "results" / "shelf.csv"
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
OVERVIEW = """`pip install '.[lab]'` brings the command `carms`, which is also `python -m carms`.

A run is a directory: settings, metrics, TensorBoard events, checkpoints, result, pictures. The same
command goes on where it was stopped, even by `kill -9`, and ends with the same numbers, bit for bit
(times aside), as if it had not been."""
ARXIV = re.compile(r"(?<![\w/>])arXiv:(\d{4}\.\d{4,5})")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the estimators' pages into the navigation."""
    for entry in config.nav:
        if "Estimators" in entry:
            pages = [{name: f"estimators/{name}.md"} for name in carms.available()]
            entry["Estimators"] = [entry["Estimators"], *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the pages that are not written by hand."""
    with MEASURED.open() as lines:
        measured = {row["estimator"]: row for row in csv.DictReader(lines)}
    for name in carms.available():
        page = estimator_page(name, measured[name])
        files.append(File.generated(config, f"estimators/{name}.md", content=page))
    index = estimator_index(measured)
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
    """Formulas become MathML, which browsers draw by themselves, and arXiv numbers links."""
    html = FORMULA.sub(mathml, html)
    return ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', html)


def mathml(found: re.Match[str]) -> str:
    """Of a formula that the Markdown extension has marked."""
    display = "block" if found[2] == "[" else "inline"
    return convert(unescape(found[3]).strip(), display=display)


def estimator_page(name: str, measured: dict[str, str]) -> str:
    """The docstring, and a card of what was measured."""
    factory = _REGISTRY[name]
    options = list(inspect.signature(factory).parameters)
    samples = ", samples=8" if "samples" in options else ""
    made = carms.make(name)
    learns = made.stateful or (
        isinstance(made, torch.nn.Module) and next(made.parameters(), None) is not None
    )
    call = (
        f'estimator = carms.make("{name}"{samples})  # once: it learns\n'
        f"value = carms.expectation(f, logits, estimator)"
        if learns
        else f'value = carms.expectation(f, logits, "{name}"{samples})'
    )
    rows = [
        ("unbiased", "yes" if made.unbiased else "**no**"),
        ("any `f`", "yes" if made.black_box else "no: it needs the gradient of `f`"),
        ("variance, `loorf` = 1", measured["variance"]),
        ("bias relative to the gradient", measured["bias"] or "none, by the tests"),
        ("evaluations of `f`", measured["evaluations"]),
        ("time of a training step, `loorf` = 1", measured["time"] or "not measured"),
    ]
    card = "\n".join(f"| {what} | {value} |" for what, value in rows)
    return f"""# {name}

```python
{call}
```

| | measured |
|---|---|
{card}

[How it was measured](../results/benchmarks.md#the-whole-shelf), and
[all of them in one table](index.md).

::: {factory.__module__}.{factory.__qualname__}
    options:
      members: false
      show_root_full_path: false
      show_root_toc_entry: false
"""


def estimator_index(measured: dict[str, dict[str, str]]) -> str:
    """All of them, with their cards side by side."""
    rows = "\n".join(
        f"| [`{name}`]({name}.md) | {summary(name)} | {'yes' if made.unbiased else 'no'} "
        f"| {'yes' if made.black_box else 'no'} | {measured[name]['evaluations']} "
        f"| {measured[name]['time'] or '-'} | {measured[name]['variance']} "
        f"| {measured[name]['bias'] or '-'} |"
        for name in carms.available()
        for made in [carms.make(name)]
    )
    return f"""# Estimators

Which to take: [Choose an estimator](../how-to/choose.md). What the columns mean, and how they were
measured: [Benchmarks](../results/benchmarks.md#the-whole-shelf).

| name | idea | unbiased | any `f` | evaluations | step time | variance | relative bias |
|---|---|---|---|---|---|---|---|
{rows}
"""


def command_help(name: str) -> str:
    """What a terminal of eighty columns shows of a command."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        parse([name, "--help"] if name else ["--help"])
    return f"## carms {name}\n\n```text\n{ANSI.sub('', printed.getvalue()).strip()}\n```"


def summary(name: str) -> str:
    """The first paragraph of a docstring."""
    return " ".join(inspect.getdoc(_REGISTRY[name]).split("\n\n")[0].split())
