"""Print the result of a run."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from carms.lab.report.paper import printed
from carms.lab.runs.settings import Settings

__all__ = ["print_result"]


def print_result(console: Console, result: Mapping[str, Any], settings: Settings) -> None:
    """Print the log likelihoods of a result, beside those of the paper where it has them."""
    for part in ("train", "test"):
        names = f"{part}_log_likelihood", f"{part}_standard_error"
        try:
            bound, error = (float(result[name]) for name in names)
        except (KeyError, TypeError, ValueError) as why:
            raise ValueError(
                f"result.json is damaged: it has no numbers {' and '.join(names)}"
            ) from why
        paper = printed(settings, part)
        beside = f"  (paper, after 10^6 steps: {paper})" if paper else ""
        console.print(
            f"{part:>5} log likelihood {bound:9.3f} +- {error:.3f}{beside}", highlight=False
        )
