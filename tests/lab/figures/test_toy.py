"""The paper's toy problem, as numbers and as a picture."""

import torch
from caught_figures import drawn

from carms.lab.figures import toy
from carms.lab.figures.toy import ALPHAS, ToyResult, draw_toy, run_toy


def test_a_bias_of_the_toy_problem_is_in_units_of_its_error():
    found = list(run_toy(["loorf", "carms-s"], problems=5, replicates=2000, seed=0))
    assert [one.alpha for one in found[::2]] == list(ALPHAS)
    for one in found:
        assert 0.3 < one.bias < 3
        assert one.variances.shape == (5, 3, 3)
    for loorf, carms_s in zip(found[::2], found[1::2], strict=True):
        assert carms_s.variances.mean() < loorf.variances.mean()


def test_what_has_no_variance_has_no_bias_but_rounding():
    for one in run_toy(["exact", "local-expectation"], problems=3, replicates=5, seed=0):
        assert one.variances.max() < 1e-20
        assert one.bias < 3


def test_boxes_are_explained_and_in_the_order_given(monkeypatch):
    results = [
        ToyResult(name, alpha, torch.rand(5, 3, 3) + 0.1, 1.0)
        for alpha in ALPHAS
        for name in ("carms-s", "a-new-one", "loorf")
    ]
    figure = drawn(monkeypatch, toy, draw_toy, results)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == ["carms-s", "a-new-one", "loorf"]
    assert "quartiles" in legend.get_title().get_text()
    assert "3 samples" in figure.axes[0].get_title()
