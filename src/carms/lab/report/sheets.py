"""A table as Markdown, LaTeX or HTML."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from carms.lab.runs.printable import printable

__all__ = [
    "Field",
    "Sheet",
    "escape_markdown",
    "number_field",
    "to_html",
    "to_latex",
    "to_markdown",
]

# Number of letters that fit into half a page.
HALF = 80
# TeX prints a plain angle bracket as an inverted punctuation mark.
_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Field:
    """One field of a table.

    Attributes:
        text: the text as it is read; nothing in it is markup.
        value: the key by which the field is sorted; a field without one comes last.
        number: whether the text is a number, or a number with its deviation.
        best: whether the text is bold.
        colour: colour of a dot before the text, as ``#`` and six digits.
    """

    text: str
    value: float | str | None = None
    number: bool = False
    best: bool = False
    colour: str | None = None


def number_field(value: float | None, form: str = "", missing: str = "") -> Field:
    """A number in a format such as ``".2f"``, by which it is sorted; another text for None."""
    return Field(missing) if value is None else Field(f"{value:{form}}", value, number=True)


@dataclass(frozen=True)
class Sheet:
    """A table of fields with a caption and a note."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Field]]
    note: str = ""


def to_markdown(sheet: Sheet) -> str:
    """A sheet as Markdown for GitHub."""
    lines = [f"**{escape_markdown(sheet.caption)}**", ""]
    lines += [escape_markdown(sheet.note), ""] if sheet.note else []
    lines.append(_piped(map(escape_markdown, sheet.headings)))
    lines.append(_piped("--:" if is_right else "---" for is_right in _numeric(sheet)))
    for row in sheet.rows:
        texts = (escape_markdown(field.text) for field in row)
        marked = zip(row, texts, strict=True)
        lines.append(_piped(f"**{text}**" if field.best else text for field, text in marked))
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """A text in one line of Markdown in which nothing is markup."""
    safe = escape(printable(" ".join(text.split())), quote=False)
    return re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", safe)


def to_latex(sheet: Sheet) -> str:
    """A sheet as LaTeX for the package booktabs."""
    align = "".join("r" if is_right else "l" for is_right in _numeric(sheet))
    rows = [_ended(_latex(field) for field in row) for row in sheet.rows]
    note = f" {_tex(sheet.note)}" if sheet.note else ""
    lines = [
        r"\begin{table}",
        rf"\caption{{{_tex(sheet.caption)}.{note}}}",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        _ended(map(_tex, sheet.headings)),
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_html(sheet: Sheet) -> str:
    """A sheet as HTML, in a box that scrolls by itself, with headings that sort."""
    kinds = [' class="number"' if is_right else "" for is_right in _numeric(sheet)]
    heads = "".join(
        f'<th scope="col"{kind}><button type="button">{escape(text)}</button></th>'
        for kind, text in zip(kinds, sheet.headings, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(map(_html, row, kinds))}</tr>" for row in sheet.rows)
    note = f'<span class="note">{escape(sheet.note)}</span>' if sheet.note else ""
    label = escape(sheet.caption)
    columns = zip(
        sheet.headings, *([field.text for field in row] for row in sheet.rows), strict=True
    )
    wide = " wide" if sum(max(map(len, column)) + 3 for column in columns) > HALF else ""
    return (
        f'<figure class="sheet{wide}"><figcaption><b>{label}</b>{note}</figcaption>'
        f'<div class="box" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></figure>\n"
    )


def _piped(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _ended(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def _numeric(sheet: Sheet) -> list[bool]:
    """Whether each column has numbers, which are flush right."""
    return [any(row[i].number for row in sheet.rows) for i in range(len(sheet.headings))]


def _tex(text: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in " ".join(text.split()))


def _latex(field: Field) -> str:
    if not field.number:
        return rf"\textbf{{{_tex(field.text)}}}" if field.best else _tex(field.text)
    plain = field.text.replace("±", r"\pm").replace(",", "{,}")
    return rf"$\mathbf{{{plain}}}$" if field.best else f"${plain}$"


def _html(field: Field, kind: str) -> str:
    value = "" if field.value in (None, "") else f' data-value="{escape(str(field.value))}"'
    text = escape(field.text.replace("-", "\N{MINUS SIGN}") if field.number else field.text)
    if field.colour:
        text = f'<i style="--colour: {field.colour}"></i>{text}'
    if field.best:
        text = f"<strong>{text}</strong>"
    return f"<td{kind}{value}>{text}</td>"
