"""Files that say the same about the package agree."""

import ast
import re
import sys
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


def packages_of(folder):
    """Packages that the files of a folder import, also by ``needed``, by their first names."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module.partition(".")[0]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "needed":
                yield from (each.value.partition(".")[0] for each in node.args[:1])


def test_what_the_lab_imports_is_declared():
    lab, ray = (PROJECT["optional-dependencies"][name] for name in ("lab", "ray"))
    declared = {re.match(r"[\w-]+", line)[0] for line in [*PROJECT["dependencies"], *lab, *ray]}
    own = {*sys.stdlib_module_names, "carms"}
    wanted = {
        "scikit-learn" if name == "sklearn" else name for name in packages_of("src/carms/lab")
    }
    assert wanted - own <= declared


def test_the_address_of_the_source_is_everywhere_or_nowhere():
    address = PROJECT["urls"].get("Source")
    assert first(r"^repo_url: (.*)", "mkdocs.yml") == address
    assert first(r"^repository-code: (.*)", "CITATION.cff") == address
