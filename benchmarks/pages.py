"""Tables of the pages, between two marks."""

from pathlib import Path


def put_table(path: Path, mark: str, rows: list[list[str]]) -> None:
    """Put a Markdown table, its header first, between ``begin`` and ``end`` of a mark on a page."""
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    text = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    begin, end = (f"<!-- {word}: {mark} -->\n" for word in ("begin", "end"))
    page = path.read_text()
    start, stop = page.index(begin) + len(begin), page.index(end)
    path.write_text(f"{page[:start]}\n{text}\n{page[stop:]}")
