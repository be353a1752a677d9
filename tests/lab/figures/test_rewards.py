"""Rewards of policy-gradient runs, as a picture."""

import pytest
from caught_figures import drawn

from carms.lab.figures import rewards
from carms.lab.figures.rewards import draw_rewards


def run(last):
    return [
        {"step": step, "reward": 0.5, "solved": 0.1, "variance_rloo": 2.0, "variance_carms": 1.0}
        for step in range(0, last + 1, 10)
    ]


@pytest.mark.parametrize("seeds", [1, 3])
def test_panels_have_titles_the_same_steps_and_explained_bands(monkeypatch, seeds):
    methods = {"carms": [run(60)] * seeds, "rloo": [run(60)] * seeds}
    figure = drawn(monkeypatch, rewards, draw_rewards, methods)
    assert {axes.get_xlim() for axes in figure.axes} == {(0, 60)}
    assert all(axes.get_title() for axes in figure.axes)
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.texts] == ["carms", "rloo"]
    said = legend.get_title().get_text()
    assert said == ("mean and range over 3 seeds" if seeds == 3 else "")
