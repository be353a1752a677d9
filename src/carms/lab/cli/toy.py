"""The command for the toy problem of the paper."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from carms.lab.cli.console import print_table
from carms.lab.cli.flags import Estimators
from carms.lab.cli.progress import progress_bars

if TYPE_CHECKING:
    from carms.lab.figures.toy import ToyResult

__all__ = ["Toy"]


@dataclass(frozen=True)
class Toy:
    """Estimate the same gradient of the paper's toy problem many times, and draw how it varies.

    Attributes:
        estimators: names of the estimators
        out: picture to write, as PNG and as SVG
        problems: number of random problems for each alpha
        replicates: number of gradients of each problem
        seed: seed of all random numbers
    """

    estimators: Estimators = ("loorf", "carms-i", "carms-g", "carms-s")
    out: Path = Path("toy.png")
    problems: int = 50
    replicates: int = 1000
    seed: int = 0

    def run(self, console: Console) -> None:
        """Estimate, print a table and draw."""
        if self.problems < 1 or self.replicates < 2 or not self.estimators:
            raise ValueError("it takes an estimator, a problem and 2 replicates at least")
        if len(set(self.estimators)) < len(self.estimators):
            raise ValueError(f"give each estimator once, got {', '.join(self.estimators)}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be at least 0 and below 2^63, got {self.seed}")
        import carms
        from carms.lab.figures.axes import picture_paths
        from carms.lab.figures.toy import ALPHAS, SIZE, check_size, draw_toy, run_toy

        picture_paths(self.out)
        check_size(self.problems, self.replicates)
        for name in self.estimators:
            # A wrong name is an error before the bar appears.
            carms.make(name, samples=SIZE)
        total = len(ALPHAS) * len(self.estimators)
        found = run_toy(self.estimators, self.problems, self.replicates, self.seed)
        with progress_bars(console, transient=True) as bars:
            results = list(bars.track(found, total, description="Estimating gradients"))
        print_table(console, _table(results, self.estimators, ALPHAS))
        console.print("The bias is over its standard error: about 1 is what chance alone gives.")
        for written in draw_toy(results, self.out):
            console.print(f"written to {written}")


def _table(
    results: Sequence["ToyResult"], estimators: Sequence[str], alphas: Sequence[float]
) -> Table:
    table = Table(title="Variance of the gradient, mean over all logits")
    table.add_column("estimator")
    for alpha in alphas:
        table.add_column(f"alpha {alpha:g}", justify="right")
    table.add_column("bias", justify="right")
    for name in estimators:
        own = [result for result in results if result.estimator == name]
        bias = statistics.mean(result.bias for result in own)
        table.add_row(name, *[f"{r.variances.mean():.4f}" for r in own], f"{bias:.2f}")
    return table
