"""The rules of the house: which room imports which, how long things are, where names are listed."""

import ast
import re
import runpy
import sys
from functools import cache
from pathlib import Path

import torch

import carms

ROOT = Path(__file__).parents[1]
# The picture of the rooms and these tests read the same imports.
PICTURE = ROOT / "docs" / "pictures" / "rooms.py"
HOUSE = runpy.run_path(str(PICTURE))
FILE_LINES = {"src": 300, "tests": 350, "benchmarks": 300, "examples": 300, "docs": 300}
FUNCTION_LINES = 70
# From the top floor to the ground.
LAB = ("cli", "contest", "sweep", "train", "report", "figures", "models", "data", "runs")
OWN = "self", "cls"
# Files that choose estimators: contestants of a benchmark or command, or the subject of a test.
CHOOSE_ESTIMATORS = {
    "benchmarks/contest_tables.py",
    "src/carms/comparison/measure.py",
    "src/carms/lab/cli/toy.py",
    "src/carms/lab/cli/variance.py",
    "src/carms/lab/figures/colours.py",
    "src/carms/lab/sweep/grid.py",
    "tests/comparison/test_compare.py",
    "tests/contract/test_every_estimator.py",
    "tests/estimators/test_unbiased.py",
    "tests/lab/report/test_report.py",
    "tests/test_terms_refused.py",
}


@cache
def parsed(path):
    return ast.parse(path.read_text())


def trees(*folders):
    """Path from the root and syntax tree of every Python file."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), parsed(path)


def private(name):
    return name.startswith("_") and not name.endswith("__")


def test_rooms_import_only_rooms_below_them():
    order = list(HOUSE["ROOMS"])
    for room, other in HOUSE["arrows"]():
        assert order.index(room) < order.index(other), f"{room} imports {other}"
        assert other != "lab" or room == "__main__", f"{room} imports {other}"


def test_rooms_of_the_lab_import_only_rooms_below_them():
    lab = HOUSE["PACKAGE"] / "lab"
    for path in lab.rglob("*.py"):
        room, floor = path.relative_to(lab).parts[0], LAB.index
        for module, _ in HOUSE["imports"](path):
            other = module.removeprefix("carms.lab.").partition(".")[0]
            if room in LAB and other in LAB and module.startswith("carms.lab."):
                assert floor(room) <= floor(other), f"{path} imports {other}"


def test_estimators_do_not_import_each_other():
    files = {path.stem for path in (ROOT / "src/carms/estimators").glob("*.py")}
    others = {f"carms.estimators.{name}" for name in files - {"base", "names", "registry"}}
    for path, tree in trees("src/carms/estimators"):
        used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert path.endswith("/__init__.py") or not used & others, f"{path}: {used & others}"


def test_private_names_are_not_imported():
    for path in HOUSE["PACKAGE"].rglob("*.py"):
        for module, name in HOUSE["imports"](path):
            assert not any(map(private, [*module.split("."), name])), f"{path}: {module}.{name}"


def test_modules_list_what_others_import():
    modules = {path: HOUSE["module_of"](ROOT / path) for path, _ in trees("src")}
    listed = {
        modules[path].removesuffix(".__init__"): strings_of_all(tree) for path, tree in trees("src")
    }
    for path in HOUSE["PACKAGE"].rglob("*.py"):
        for module, name in HOUSE["imports"](path):
            known = name in listed.get(module, [name]) or f"{module}.{name}" in listed
            assert known or not name, f"{path} imports {name}, which {module} does not list"


def strings_of_all(tree):
    """What ``__all__`` of a file lists."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return []


def test_the_picture_of_the_rooms_is_up_to_date():
    drawn = PICTURE.with_suffix(".svg").read_text()
    assert drawn == HOUSE["picture"](), f"run python {PICTURE.relative_to(ROOT)}"


def test_private_names_are_not_used_across_rooms():
    defined, used = {}, []
    for path, tree in trees("src"):
        room = HOUSE["room_of"](HOUSE["module_of"](ROOT / path))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                defined.setdefault(node.name, set()).add(room)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.setdefault(node.attr, set()).add(room)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in OWN:
                used += [(path, room, node.attr)] if private(node.attr) else []
    # A private name that no room defines is another library's.
    crossings = {name for _, room, name in used if room not in defined.get(name, {room})}
    assert not crossings, [each for each in used if each[2] in crossings]


def test_lengths_of_files():
    for folder, limit in FILE_LINES.items():
        for path, _ in trees(folder):
            lines = len((ROOT / path).read_text().splitlines())
            assert lines <= limit, f"{path} has {lines} lines"


def test_lengths_of_functions():
    for path, tree in trees(*FILE_LINES):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                lines = node.end_lineno - node.lineno + 1
                assert lines <= FUNCTION_LINES, f"{path}: {node.name} has {lines} lines"


def listed_names(tree):
    """The strings of each list, tuple, set and of the keys of each dictionary."""
    decorators = [each for node in ast.walk(tree) for each in getattr(node, "decorator_list", [])]
    parameters = {node for each in decorators for node in ast.walk(each)}
    for node in ast.walk(tree):
        if node in parameters:
            continue
        inner = getattr(node, "elts", None) or getattr(node, "keys", None) or []
        yield [each.value for each in inner if isinstance(each, ast.Constant)]


def test_facts_are_on_the_classes_and_not_in_lists_of_names():
    names = set(carms.available())
    found = set()
    for path, tree in trees("src", "tests", "benchmarks", "examples", "docs"):
        if any(len(each) >= 4 and names.issuperset(each) for each in listed_names(tree)):
            found.add(path)
    assert found == CHOOSE_ESTIMATORS


def test_the_page_tells_the_walk_of_a_default_call():
    """The files that a call walks through, outside of core, are those that the page names."""
    page = (ROOT / "docs/design/house.md").read_text()
    steps = re.findall(r"^\d+\. .*(?:\n    .*)*", page, re.MULTILINE)
    assert len(steps) <= 10
    told = {name for step in steps for name in re.findall(r"`([a-z_/]+\.py)`", step)}
    walked = set()

    def note(frame, *_):
        walked.add(frame.f_code.co_filename)

    def call():
        logits = torch.zeros(2, 3, requires_grad=True)
        carms.expectation(lambda z: z.sum((-2, -1)), logits).backward()

    call()  # imports what it needs
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    rooms = {path.removeprefix(f"{HOUSE['PACKAGE']}/") for path in walked}
    assert {path for path in rooms if not path.startswith(("/", "<", "core/", "__init__"))} == told
