"""The programs of the README and of the pages run as they stand there, and print what they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *(ROOT / "docs" / "how-to").glob("*.md")]
# A program, and what it prints if that is shown.
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")


def programs(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [p for p in PAGES if programs(p)], ids=lambda page: page.stem)
def test_programs_run_and_print_what_is_shown(page, capsys):
    names: dict[str, object] = {}
    for program, shown in programs(page):
        shorter = program.replace("replicates=2000", "replicates=50")
        exec(compile(shorter, page.name, "exec"), names)
        printed = capsys.readouterr().out
        if not shown or shorter != program:
            continue
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
        numbers = [[float(x) for x in NUMBER.findall(text)] for text in (printed, shown)]
        # Another processor may round differently, and training adds that up.
        tolerance = 0.25 if "optimiser.step" in program else 0.01
        assert numbers[0] == pytest.approx(numbers[1], abs=tolerance, rel=0.02)


def test_links_lead_somewhere():
    # Those of the other pages are checked when the site is built.
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
