"""What the site has beside its pages: estimators, the notebook, formulas that need no script."""

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
# Written by benchmarks/trained.py, a row for each model and estimator, and by benchmarks/shelf.py.
TRAINED = HERE / "results" / "trained.csv"
RANDOM = HERE / "results" / "shelf.csv"
# The models of the first, as the pages call them; the first of them stands for all in the index.
MODELS = {
    "mnist-nonlinear": "MNIST, nonlinear",
    "mnist-linear": "MNIST, linear",
    "digits": "digits",
}
INDEX = [
    *("name", "idea", "unbiased", "any `f`"),
    *("trained model: variance", "variance at equal time", "bias"),
    *("random networks: variance", "bias", "evaluations", "step time"),
]
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
OVERVIEW = """`pip install '.[lab]'` brings the command `carms`, which is also `python -m carms`.

A run is a directory: settings, metrics, TensorBoard events, checkpoints, result, pictures. The same
command goes on where it was stopped, even by `kill -9`, and ends with the same numbers, bit for bit
(times aside), as if it had not been."""
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
    """Formulas become MathML, which browsers draw by themselves; keys and arXiv numbers, links."""
    html = FORMULA.sub(mathml, html)
    html = ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', html)
    if page.file.src_uri == REFERENCES:
        return KEY.sub(r'<span id="\1">[\1]</span>', html)
    target = files.get_file_from_path(REFERENCES).url_relative_to(page.file)
    return KEY.sub(rf'<a href="{target}#\1">[\1]</a>', html)


def mathml(found: re.Match[str]) -> str:
    """Of a formula that the Markdown extension has marked."""
    display = "block" if found[2] == "[" else "inline"
    return convert(unescape(found[3]).strip(), display=display)


def estimator_page(
    name: str, random: dict[str, str], trained: dict[tuple[str, str], dict[str, str]]
) -> str:
    """The docstring, and a card of what was measured."""
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
    needs = "any `f`" if made.black_box else "it needs the gradient of `f`"
    if made.requires:
        needs += f", and an `f` that is {made.requires}"
    return f"""# {name}

```python
{call}
```

{"Unbiased" if made.unbiased else "**Biased**"}; {needs}.

{card(name, random, trained)}

How it was measured: [trained models](../results/benchmarks.md#trained-models),
[random networks](../results/benchmarks.md#the-whole-shelf).
[All estimators in one table](index.md).

::: {kind.__module__}.{kind.__qualname__}
    options:
      members: false
      show_root_full_path: false
      show_root_toc_entry: false
"""


def card(name: str, random: dict[str, str], trained: dict[tuple[str, str], dict[str, str]]) -> str:
    """A table of figures: a column for each trained model, and one for random networks."""
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
    lines = [
        ["", *(f"trained: {title}" for title in columns), "random networks"],
        ["---"] * (len(columns) + 2),
    ]
    for title, key in rows.items():
        missing = "none" if key == "bias" and unbiased else "-"
        lines.append([title, *(row.get(key) or missing for row in [*models, random])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def estimator_index(
    random: dict[str, dict[str, str]], trained: dict[tuple[str, str], dict[str, str]]
) -> str:
    """All of them, with their cards side by side."""
    first = next(iter(MODELS))
    rows = []
    for name in carms.available():
        made = carms.make(name)
        on_model, on_networks = trained.get((first, name), {}), random.get(name, {})
        figures = [
            *(on_model.get(key) or "-" for key in ("variance", "variance_at_equal_time", "bias")),
            *(on_networks.get(key) or "-" for key in ("variance", "bias", "evaluations", "time")),
        ]
        facts = ["yes" if fact else "no" for fact in (made.unbiased, made.black_box)]
        cells = [f"[`{name}`]({name}.md)", summary(name), *facts, *figures]
        rows.append(f"| {' | '.join(cells)} |")
    header, table = f"| {' | '.join(INDEX)} |", "\n".join(rows)
    return f"""# Estimators

Which to take: [Choose an estimator](../how-to/choose.md).

{header}
|{"---|" * len(INDEX)}
{table}

Variances and times are relative to `loorf`, biases to the gradient. Variances are at equal
evaluations unless the column says equal time. The
[trained model](../results/benchmarks.md#trained-models) is the nonlinear VAE on MNIST; the
[random networks](../results/benchmarks.md#the-whole-shelf) are small.
"""


def command_help(name: str) -> str:
    """What a terminal of eighty columns shows of a command."""
    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        parse([name, "--help"] if name else ["--help"])
    return f"## carms {name}\n\n```text\n{ANSI.sub('', printed.getvalue()).strip()}\n```"


def summary(name: str) -> str:
    """The first paragraph of a docstring."""
    return " ".join(inspect.getdoc(find(name)).split("\n\n")[0].split())
