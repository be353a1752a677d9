"""Correlations of two samples, as numbers and as a picture."""

import torch
from caught_figures import drawn

from carms.copulas import Circular
from carms.couplings import InverseCDF
from carms.lab.figures import correlations as module
from carms.lab.figures.correlations import Panel, correlations, draw_correlations


def test_correlations_are_those_of_the_draws():
    probs = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    panels = correlations(probs, 3)
    assert [panel.exact for panel in panels] == [True, True, True, True, False, False]
    indices = InverseCDF(Circular(3)).sample(probs.expand(100_000, 3))
    drawn = torch.corrcoef(
        torch.nn.functional.one_hot(indices[:2], 3).double().transpose(1, 2).flatten(0, 1)
    )
    torch.testing.assert_close(panels[2].matrix, drawn[:3, 3:], rtol=0, atol=0.02)


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_correlation_of_almost_nothing_has_no_sign(monkeypatch):
    panels = [Panel(f"{k}", torch.full((2, 2), -0.001), True) for k in range(2)]
    figure = drawn(monkeypatch, module, draw_correlations, panels, torch.tensor([0.25, 0.75]), 5)
    assert texts(figure) == ["0.00"] * 8
    assert figure.get_suptitle() == "Correlation of two of N = 5 samples, p = (0.25, 0.75)"


def test_many_categories_have_few_ticks(monkeypatch):
    panels = [Panel(f"{k}", torch.eye(40), False) for k in range(2)]
    figure = drawn(monkeypatch, module, draw_correlations, panels, torch.full((40,), 1 / 40), 5)
    assert not texts(figure)
    assert len(figure.axes[0].get_xticks()) == 10
    assert "C = 40 categories" in figure.get_suptitle()
    assert "from 200,000 draws" in figure.axes[0].get_title()
