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


@pytest.mark.parametrize("out", [".", "", "..", "a/.."])
def test_a_directory_is_no_picture(out):
    with pytest.raises(ValueError, match="out must name a picture"):
        axes.picture_paths(Path(out))
