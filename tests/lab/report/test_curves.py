"""Curves of runs, as a picture."""

import itertools

import pytest
from caught_figures import drawn
from written_runs import write_run

from carms.lab.figures.axes import plain_log_axis, plain_steps
from carms.lab.report import curves
from carms.lab.report.blocks import make_blocks
from carms.lab.report.curves import BANDS, draw_curves
from carms.lab.runs.gather import gather


def blocks_of(*directories):
    return make_blocks(gather(directories).runs, directories)


def legend_of(figure):
    (legend,) = figure.subfigs[0].legends
    return [text.get_text() for text in legend.texts], legend.get_title().get_text()


NAMES = ("carms-s", "loorf", "carms-i")


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
def test_legends_are_in_the_order_of_the_command(tmp_path, monkeypatch, order):
    for name in NAMES:
        write_run(tmp_path / name, estimator=name)
    figure = drawn(
        monkeypatch, curves, draw_curves, blocks_of(*[tmp_path / name for name in order])
    )
    assert legend_of(figure) == ([*order], "")


def test_a_single_directory_is_in_the_order_of_the_paper(tmp_path):
    for name in NAMES:
        write_run(tmp_path / name, estimator=name)
    (block,) = blocks_of(tmp_path)
    found = [group[0].settings.estimator for group in block.groups]
    assert found == ["carms-i", "loorf", "carms-s"]


def test_panels_have_titles_and_the_same_steps(tmp_path, monkeypatch):
    write_run(tmp_path / "a", estimator="loorf", lines=2)
    write_run(tmp_path / "b", estimator="loorf", seed=1, lines=4)
    figure = drawn(monkeypatch, curves, draw_curves, blocks_of(tmp_path))
    (row,) = figure.subfigs
    assert (
        row.get_suptitle() == "vae, dynamic-mnist, nonlinear, 10 categories\nsteps 40, rate 0.001"
    )
    assert [axes.get_title().split()[0] for axes in row.axes] == ["Objective", "Bound", "Variance"]
    assert {axes.get_xlim() for axes in row.axes} == {(0, 40)}
    assert legend_of(figure) == (["loorf"], BANDS)


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (60, ["0", "20", "40", "60"]),
        (2400, ["0", "1,000", "2,000"]),
        (50_000, ["0", "20,000", "40,000"]),
        (1_000_000, ["0", "250,000", "500,000", "750,000", "1,000,000"]),
    ],
)
def test_steps_are_plain_and_do_not_overlap(last, wanted):
    figure, axes = curves.plt.subplots(figsize=(4.2, 3))
    plain_steps(axes, last)
    figure.canvas.draw()
    shown = [label for label in axes.xaxis.get_ticklabels() if label.get_position()[0] <= last]
    assert [label.get_text() for label in shown] == wanted
    boxes = [label.get_window_extent() for label in shown]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    curves.plt.close(figure)


@pytest.mark.parametrize("values", [(0.3, 0.7), (0.2, 40.0), (1e-4, 1e4)])
def test_labels_of_a_logarithmic_axis_are_plain(values):
    figure, axes = curves.plt.subplots()
    axes.plot(values)
    plain_log_axis(axes)
    figure.canvas.draw()
    shown = [label.get_text() for label in axes.yaxis.get_ticklabels()]
    assert len(shown) >= 3
    assert all(float(label.replace("\N{MINUS SIGN}", "-")) > 0 for label in shown)
    curves.plt.close(figure)


@pytest.mark.parametrize(("lines", "marker"), [(1, "o"), (2, "None")])
def test_a_lone_point_has_a_marker(tmp_path, monkeypatch, lines, marker):
    write_run(tmp_path / "a", lines=lines)
    figure = drawn(monkeypatch, curves, draw_curves, blocks_of(tmp_path))
    panels = figure.subfigs[0].axes
    assert {line.get_marker() for axes in panels for line in axes.lines} == {marker}


def test_a_block_without_a_metric_has_no_panel_for_it(tmp_path, monkeypatch):
    write_run(tmp_path / "judged", categories=3)
    write_run(tmp_path / "not", categories=10)
    path = tmp_path / "not" / "metrics.jsonl"
    path.write_text(path.read_text().replace('"test_bound"', '"other"'))
    figure = drawn(monkeypatch, curves, draw_curves, blocks_of(tmp_path))
    shown = [sum(axes.get_visible() for axes in row.axes) for row in figure.subfigs]
    assert len(shown) == 2
    assert max(shown) == min(shown) + 1
