"""How figures are saved."""

from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from carms.lab.figures import axes


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    figure, _ = plt.subplots()
    written = axes.save_figure(figure, tmp_path / "new" / "a.png")
    assert written[0].read_bytes().startswith(b"\x89PNG")
    before = written[0].read_bytes()

    def torn(self, out, **options):
        if isinstance(out, Path):
            out.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(type(figure), "savefig", torn)
    with pytest.raises(OSError, match="disk full"):
        axes.save_figure(figure, tmp_path / "new" / "a.png")
    assert written[0].read_bytes() == before


@pytest.mark.parametrize("name", ["a", "a.png", "a.PNG", "a.Svg"])
def test_a_picture_is_written_in_two_formats(tmp_path, name):
    assert axes.picture_paths(tmp_path / name) == [tmp_path / "a.png", tmp_path / "a.svg"]


@pytest.mark.parametrize("name", ["a.pdf", "a.JPG", "a.tiff"])
def test_other_formats_of_pictures_are_refused(name):
    with pytest.raises(ValueError, match=f"are written as .png and .svg, got '{name}'"):
        axes.picture_paths(Path(name))


@pytest.mark.parametrize("out", [".", "", "..", "a/.."])
def test_a_directory_is_no_picture(out):
    with pytest.raises(ValueError, match="out must name a picture"):
        axes.picture_paths(Path(out))
