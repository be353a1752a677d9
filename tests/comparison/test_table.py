"""How a comparison is shown, and what its rows are called."""

import pytest
from helpers import RandomTable, dirichlet_probs, generator

import carms
from carms.comparison import Comparison, Measurement
from carms.copulas import Circular

COLUMNS = [
    *("bias", "evaluations", "milliseconds", "per_evaluation", "per_millisecond"),
    *("samples", "standard_error", "trained", "variance"),
]


@pytest.fixture
def problem():
    probs = dirichlet_probs(1.0, 1, 3, seed=3, floor=0.05)
    return RandomTable(1, 3, seed=1), probs.log()


def test_the_table_as_text_dictionary_and_html(problem):
    names = ["loorf", "carms-s", "exact"]
    table = carms.compare(*problem, names, samples=4, replicates=30)
    lines = str(table).splitlines()
    header = "estimator N bias s.e. var. evals ms x evals x ms"
    assert lines[0].split() == header.split()
    assert [line.split()[0] for line in lines[2:5]] == names
    assert lines[5].startswith("30 replicates; ")
    assert len(lines) == 8
    assert repr(table) == str(table)
    found = table.to_dict()
    assert list(found) == names
    assert all(sorted(values) == COLUMNS for values in found.values())
    html = table._repr_html_()
    assert html.count("<tr>") == 4
    assert all(f"<td>{name}</td>" in html for name in names)
    # The printed numbers are those of the dictionary.
    assert float(lines[2].split()[4]) == pytest.approx(found["loorf"]["variance"], rel=0.05)


def test_html_is_escaped(problem):
    class Odd(type(carms.make("loorf"))):
        name = "<b>&"

    html = carms.compare(*problem, [Odd(4)], replicates=5)._repr_html_()
    assert "<td>&lt;b&gt;&amp;</td>" in html


def test_options_and_labels(problem):
    given = {
        "plain": "loorf",
        "mine": carms.make("loorf", samples=3),
        "far": ("carms-s", {"epsilon": 0.5, "samples": 5}),
    }
    found = carms.compare(*problem, given, replicates=5).to_dict()
    assert list(found) == ["plain", "mine", "far"]
    assert [values["samples"] for values in found.values()] == [8, 3, 5]
    found = carms.compare(*problem, ("carms-i", {"epsilon": 0.5}), 4, replicates=5).to_dict()
    assert list(found) == ["carms-i(epsilon=0.5)"]
    coupled = ("reinmax", {"coupling": "circular"}), ("carms-i", {"copula": Circular(samples=4)})
    found = carms.compare(lambda z: z[..., 0].sum(-1), problem[1], coupled, 4, replicates=5)
    labels = ["reinmax(coupling='circular')", "carms-i(copula=Circular(samples=4))"]
    assert list(found.to_dict()) == labels
    # Those that differ in samples alone are told apart by them.
    twice = [carms.make("loorf", samples=3), carms.make("loorf", samples=5)]
    found = carms.compare(*problem, twice, replicates=5).to_dict()
    assert list(found) == ["loorf(samples=3)", "loorf(samples=5)"]


def test_long_labels_are_shortened_in_the_text_alone(problem):
    label = "independent samples, each compared with the others"
    table = carms.compare(*problem, {label: "loorf"}, replicates=5)
    assert str(table).splitlines()[2].startswith("independen…he others  ")
    assert label in table._repr_html_()
    assert list(table.to_dict()) == [label]


def test_variance_at_equal_evaluations_and_at_equal_time(problem):
    """A call with twice the samples, or two calls: the same for independent samples."""
    table = carms.compare(*problem, "reinforce", 4, 50, generator(1))
    (found,) = table.measurements
    assert found.per_evaluation == found.variance * found.evaluations
    assert found.per_millisecond == found.variance * found.milliseconds
    cells = [float(cell) for cell in str(table).splitlines()[2].split()[-2:]]
    assert cells == pytest.approx([found.per_evaluation, found.per_millisecond], rel=0.05)


def test_a_picture(problem):
    table = carms.compare(*problem, ["exact", "loorf", "carms-s"], 4, replicates=20)
    axes = table.plot().axes
    assert [axis.get_title() for axis in axes] == [
        "variance of a call",
        "at equal evaluations",
        "at equal time",
    ]
    assert [each.get_text() for each in axes[0].get_yticklabels()] == ["exact", "loorf", "carms-s"]
    found = table.to_dict()
    for axis, column in zip(axes, ("variance", "per_evaluation", "per_millisecond"), strict=True):
        shown = [each.get_text() for each in axis.texts]
        ratio = found["carms-s"][column] / found["loorf"][column]
        assert shown[1:] == ["1", f"{ratio:.3g}"]
        assert axis.get_xlabel() == "relative to loorf"


@pytest.mark.parametrize("size", [3e-8, 3.456e-3, 0.03456, 3.456, 3456.7, 3.456e7])
def test_the_text_fits_into_80_columns_and_says_what_its_columns_are(size):
    row = Measurement("x" * 20, 128, size, size, size, 1234.5, 1234.5, 300)
    text = str(Comparison((row,), replicates=10_000))
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"{column}: " in text for column in ("N", "bias", "evals", "x evals, x ms"))
    for column in ("N", "bias", "s.e.", "var.", "evals", "ms", "x evals", "x ms"):
        assert f"``{column}``" in Comparison.__doc__
