"""What a comparison found, as a table, a dictionary or a picture."""

from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "Measurement"]

# Longer labels are shortened in the text, and nowhere else: it then fits into 80 columns.
_WIDEST_LABEL = 20

_HEADER = ("estimator", "N", "bias", "s.e.", "var.", "evals", "ms", "x evals", "x ms")


@dataclass(frozen=True)
class Measurement:
    """Measurements of one estimator by ``compare``.

    Attributes:
        estimator: its label.
        samples: number of samples per call.
        bias: length of the mean gradient minus the exact one; None where that is not feasible,
            or was not asked for.
        standard_error: the size of ``bias`` that chance alone would typically cause.
        variance: variance of the gradient, summed over all logits.
        evaluations: distinct points at which ``f`` was evaluated, mean per example and call.
        milliseconds: median time of a call with its backward pass.
        trained: number of steps for which its parameters were trained before; None if it has none.
    """

    estimator: str
    samples: int
    bias: float | None
    standard_error: float
    variance: float
    evaluations: float
    milliseconds: float
    trained: int | None = None

    @property
    def per_evaluation(self) -> float:
        """``variance * evaluations``: B evaluations pay for ``B / evaluations`` calls, and the mean
        of these has this variance divided by B.
        """
        return self.variance * self.evaluations

    @property
    def per_millisecond(self) -> float:
        """``variance * milliseconds``: the same for B milliseconds."""
        return self.variance * self.milliseconds


@dataclass(frozen=True)
class Comparison:
    """Measurements to ``print``, to show in a notebook, to ``plot()`` or to take ``to_dict()``.

    The columns of the printed table are:

    - ``N``: number of samples per call.
    - ``bias``: distance of the mean gradient from the exact one. Since it is a length, it is never
      zero: an unbiased estimator has about one ``s.e.`` of it by chance.
    - ``s.e.``: standard error of the mean gradient, which shrinks with more replicates.
    - ``var.``: variance of the gradient, summed over all logits.
    - ``evals``: distinct points at which ``f`` is evaluated, per example and call.
    - ``ms``: median time of a call with its backward pass; measure on an idle machine.
    - ``x evals``, ``x ms``: variance times evaluations and variance times milliseconds. Compare
      these to see who is better with the same number of evaluations or in the same time.

    Attributes:
        measurements: the rows of the table.
        replicates: number of gradients per estimator.
        random: whether ``f`` had other values at the same points, as with dropout. Then there is no
            exact gradient to measure a bias by.
    """

    measurements: tuple[Measurement, ...]
    replicates: int
    random: bool = False

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The measurements of each estimator by its label."""
        rows = {}
        for row in self.measurements:
            costs = {"per_evaluation": row.per_evaluation, "per_millisecond": row.per_millisecond}
            rows[row.estimator] = {**asdict(row), **costs}
            del rows[row.estimator]["estimator"]
        return rows

    def plot(self) -> "Figure":
        """Variances of a call, at equal evaluations and at equal time, in a figure of matplotlib.

        They are relative to the first estimator whose variance is not zero, on a logarithmic scale.
        It needs matplotlib, which ``pip install 'carms[lab]'`` brings.
        """
        from matplotlib.figure import Figure

        rows = self.measurements
        panels = {
            "variance of a call": [row.variance for row in rows],
            "at equal evaluations": [row.per_evaluation for row in rows],
            "at equal time": [row.per_millisecond for row in rows],
        }
        labels = [_shortened(row.estimator) for row in rows]
        reference = next((k for k, row in enumerate(rows) if row.variance > 0), 0)
        figure = Figure(figsize=(10, 1.4 + 0.3 * len(rows)), layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True)
        for axis, (title, values) in zip(axes, panels.items(), strict=True):
            ratios = [value / (values[reference] or 1) for value in values]
            places = [k for k, ratio in enumerate(ratios) if ratio > 0]
            ends = [ratios[k] for k in places]
            axis.hlines(places, 1, ends, color="#4C78A8", lw=1)
            axis.plot(ends, places, "o", color="#4C78A8")
            for place, ratio in enumerate(ratios):
                axis.text(1.02, place, f"{ratio:.3g}", transform=axis.get_yaxis_transform())
            axis.axvline(1, color="#999999", lw=1, ls=":")
            axis.set(xscale="log", title=title, xlabel=f"relative to {labels[reference]}")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter("")
            axis.spines[["top", "right"]].set_visible(False)
        axes[0].set_yticks(range(len(rows)), labels)
        axes[0].set_ylim(len(rows) - 0.5, -0.5)
        return figure

    def _notes(self) -> list[str]:
        trained: dict[int, list[str]] = {}
        for row in self.measurements:
            if row.trained is not None:
                trained.setdefault(row.trained, []).append(row.estimator)
        return [
            f"{self.replicates} replicates; N: samples; evals: distinct points of f per call",
            "bias: not known, because f has other values each time (dropout? use eval())"
            if self.random
            else "bias: distance of the mean gradient from the exact one; about one s.e. is chance",
            "x evals, x ms: variance at equal evaluations and at equal time",
            *(
                f"{'trained for ' + str(steps) + ' steps' if steps else 'not trained here'}: "
                + ", ".join(labels)
                for steps, labels in trained.items()
            ),
        ]

    def __str__(self) -> str:
        rows = map(_cells, self.measurements)
        cells = [[_shortened(label), *numbers] for label, *numbers in (_HEADER, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])))
            for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEADER)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(row)) + "</tr>"
            for row in self.measurements
        )
        caption = f"<caption>{escape('; '.join(self._notes()))}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table>"


def _cells(row: Measurement) -> list[str]:
    return [
        row.estimator,
        str(row.samples),
        "-" if row.bias is None else _number(row.bias),
        _number(row.standard_error),
        _number(row.variance),
        _number(row.evaluations),
        _number(row.milliseconds),
        _number(row.per_evaluation),
        _number(row.per_millisecond),
    ]


def _number(value: float) -> str:
    """The number in at most six characters; seven if it is below 1e-9.

    Examples:
        >>> [_number(value) for value in (0.03371, 0.001234, 4.5678, 12345.6, 1234567.0)]
        ['0.0337', '0.0012', '4.57', '12346', '1.2e6']
    """
    if 1e3 <= value < 1e5:
        return f"{value:.0f}"
    for text in (f"{value:.3g}", f"{value:.2g}"):
        if len(text) <= 6:
            return text
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def _shortened(label: str) -> str:
    """The label without its middle, if it is too long for a column of text."""
    if len(label) <= _WIDEST_LABEL:
        return label
    half = _WIDEST_LABEL // 2
    return f"{label[:half]}…{label[1 - half :]}"
