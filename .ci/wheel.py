"""Try the built package: what the wheel holds, and how it works in an empty environment."""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel holds all files of ``src/carms`` and no others; the sdist holds the tests too."""
    files = [path for path in (ROOT / "src/carms").rglob("*") if path.is_file()]
    expected = {str(path.relative_to(ROOT / "src")) for path in files if path.suffix != ".pyc"}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == expected, f"{wheel.name}: missing or superfluous: {sorted(held ^ expected)}"
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    required = {"pyproject.toml", "LICENSE", "README.md", "Makefile", "tests/conftest.py"}
    assert required <= packed, f"{sdist.name}: missing: {sorted(required - packed)}"


def check_use(python: Path, directory: Path) -> None:
    """README's first program runs, and the command says how to get the lab."""
    program, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    subprocess.run([python, "-c", program], cwd=directory, check=True)
    command = [python.parent / "carms", "--help"]
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    lines = ended.stderr.splitlines()
    assert ended.returncode == 1, ended
    assert len(lines) == 1, ended.stderr
    assert "pip install 'carms[lab]'" in lines[0], ended.stderr
    print(*lines)


def main(dist: Path) -> None:
    """Check the one wheel and the one sdist in a directory."""
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_contents(wheel, sdist)
    with TemporaryDirectory() as name:
        directory = Path(name)
        venv.create(directory, with_pip=True)
        python = directory / "bin" / "python"
        pinned = ["--constraint", ROOT / "constraints.txt"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pinned, wheel], check=True)
        check_use(python, directory)
    print(f"{wheel.name} and {sdist.name} work in an empty environment")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
