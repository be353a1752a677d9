"""Figures, caught before they are saved."""

from pathlib import Path


def drawn(monkeypatch, module, draw, *arguments):
    """The figure that a function ``draw`` of a module would save."""
    found = []
    monkeypatch.setattr(module, "save_figure", lambda figure, _: found.append(figure))
    draw(*arguments, Path("never-written"))
    (figure,) = found
    module.plt.close(figure)
    return figure
