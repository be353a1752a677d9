"""The README's programs run as they stand there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_blocks_run_one_after_the_other(capsys):
    names: dict[str, object] = {}
    printed = []
    for block in python_blocks():
        exec(compile(block.replace("replicates=2000", "replicates=50"), "README.md", "exec"), names)
        printed.append(capsys.readouterr().out)
    first = [line.split() for line in printed[0].splitlines()]
    assert [int(step) for step, _ in first] == [0, 50, 100, 150, 200]
    assert float(first[-1][1]) > -1
    assert "carms-s" in printed[1]


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
