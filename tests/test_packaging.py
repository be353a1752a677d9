"""Files that say the same about the package agree."""

import re
import tomllib
from pathlib import Path

import carms

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def first(pattern, name):
    found = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
    return found and found[1]


def test_the_version():
    assert first(r"^version: (.*)", "CITATION.cff") == carms.__version__
    assert first(r"^## ([\d.]+)", "CHANGELOG.md") == carms.__version__


def test_the_lowest_torch_is_tested():
    assert PROJECT["dependencies"] == [
        f"torch>={first(r'^torch==(.*)[.]0$', 'requirements-lowest.txt')}"
    ]


def test_the_address_of_the_source_is_everywhere_or_nowhere():
    address = PROJECT["urls"].get("Source")
    assert first(r"^repo_url: (.*)", "mkdocs.yml") == address
    assert first(r"^repository-code: (.*)", "CITATION.cff") == address
