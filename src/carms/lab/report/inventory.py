"""Sheets of the runs, their settings and their versions."""

from collections import Counter
from collections.abc import Iterable, Sequence

from carms.lab.figures.colours import colour
from carms.lab.report.blocks import DEFAULTS, changed_settings
from carms.lab.report.sheets import Field, Sheet, number_field
from carms.lab.runs.gather import RecordedRun
from carms.lab.runs.records import PARTS

__all__ = ["list_runs", "list_settings", "list_versions", "listed"]

# Most values of a setting that are printed; the rest is counted.
VALUES = 8
COLUMNS = ("task", "dataset", "network", "categories", "estimator", "seed")


def list_runs(runs: Sequence[RecordedRun]) -> Sheet:
    """A row for each run."""
    headings = [
        "run",
        *COLUMNS,
        "step",
        "of",
        *PARTS,
        "ms a step",
        "minutes",
        "settings",
        "versions",
    ]
    return Sheet(f"{len(runs):,} runs", headings, [_row(run) for run in runs])


def list_settings(runs: Sequence[RecordedRun]) -> Sheet:
    """Every setting with the values of the runs, and its default."""
    rows = []
    for name, default in DEFAULTS.items():
        values = [getattr(run.settings, name) for run in runs]
        said = listed([_value_in_words(value) for value in values])
        texts = (name.replace("_", "-"), said, _value_in_words(default))
        rows.append([Field(text, text) for text in texts])
    return Sheet("Settings", ["setting", "here", "default"], rows)


def list_versions(runs: Sequence[RecordedRun]) -> Sheet:
    """Versions of the programs with which the finished runs were made."""
    counts: Counter[tuple[str, str]] = Counter()
    for run in runs:
        if run.result:
            counts.update(run.result.versions.items())
    rows = [
        [Field(name, name), Field(version, version), number_field(number, ",")]
        for (name, version), number in sorted(counts.items())
    ]
    note = (
        "" if all(run.result for run in runs) else "Only finished runs have their versions noted."
    )
    return Sheet("Versions", ["program", "version", "runs"], rows, note)


def listed(values: Iterable[str]) -> str:
    """The values, each once; those beyond the first few are only counted."""
    names = list(dict.fromkeys(values))
    rest = f" and {len(names) - VALUES:,} more" if len(names) > VALUES else ""
    return ", ".join(names[:VALUES]) + rest


def _row(run: RecordedRun) -> list[Field]:
    settings, result = run.settings, run.result
    fields = [Field(str(run.path), str(run.path))]
    for name in COLUMNS:
        value = getattr(settings, name)
        own = colour(value) if name == "estimator" else None
        fields.append(Field(str(value), value, number=isinstance(value, int), colour=own))
    fields += [number_field(run.step, ","), number_field(settings.steps, ",")]
    fields += [
        number_field(result.likelihood[part], ".3f") if result else Field("partial")
        for part in PARTS
    ]
    fields += [number_field(run.milliseconds, ".2f")]
    fields += [number_field(result.seconds / 60 if result else None, ".1f")]
    others = changed_settings(
        settings, [name for name in DEFAULTS if name not in (*COLUMNS, "steps")]
    )
    versions = result.versions.items() if result else ()
    made_with = ", ".join(f"{name} {value}" for name, value in versions)
    return [*fields, Field(others, others), Field(made_with, made_with)]


def _value_in_words(value: object) -> str:
    if value is None:
        return "derived"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(value) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
