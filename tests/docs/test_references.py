"""References once: keys in docstrings and pages, and a page that says what they stand for."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIBLIOGRAPHY = ROOT / "docs" / "references.md"
KEY = re.compile(r"\[([a-z]+(?:19|20)\d\d[a-z]*)\]")


def entries():
    return [line for line in BIBLIOGRAPHY.read_text().splitlines() if line.startswith("- ")]


def cited():
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    return {
        key for path in sources if path != BIBLIOGRAPHY for key in KEY.findall(path.read_text())
    }


def test_every_key_that_is_cited_has_an_entry_and_every_entry_is_cited():
    keys = [KEY.search(line)[1] for line in entries()]
    assert keys == sorted(set(keys))
    assert cited() == set(keys)


def test_an_entry_says_who_when_and_what():
    for line in entries():
        assert re.fullmatch(
            r"- \*\*\[[a-z]+(\d{4})[a-z]*\]\*\* .+ \(\1\)\. \*.+[.!]\*( .+\.)?", line
        ), line


def test_docstrings_leave_titles_and_numbers_to_the_entries():
    for path in (ROOT / "src").rglob("*.py"):
        assert "arXiv:" not in path.read_text(), path
