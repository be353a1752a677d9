"""The notebook runs from top to bottom, and says what is saved in it."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

IDEA = Path(__file__).parents[2] / "docs" / "idea.ipynb"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    streams = [output for output in outputs if output.output_type == "stream"]
    assert all(output.name == "stdout" for output in streams), "a warning was shown"
    return "".join(output.text for output in streams)


def test_runs_and_repeats_itself(tmp_path, monkeypatch):
    # Its asserts are the claims that it makes; a cell that fails raises here.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    saved = nbformat.read(IDEA, as_version=4)
    fresh = nbformat.read(IDEA, as_version=4)
    NotebookClient(fresh, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    before, after = printed(saved), printed(fresh)
    assert NUMBER.sub("#", before) == NUMBER.sub("#", after)
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (before, after)]
    assert numbers[1] == pytest.approx(numbers[0], abs=0.02)


def test_is_saved_with_pictures_and_small():
    notebook = nbformat.read(IDEA, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    pictures = [o for cell in code for o in cell.outputs if "image/png" in o.get("data", {})]
    assert len(pictures) == 7
    assert IDEA.stat().st_size < 1_000_000
