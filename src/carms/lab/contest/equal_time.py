"""Scores at equal time: at the judgement nearest to the moment when the reference has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from carms.lab.contest.results import Result
from carms.lab.contest.statistics import resampled_means, resampled_medians
from carms.lab.contest.task import Task

__all__ = ["TimedRuns", "nearest_judgement"]


def nearest_judgement(task: Task, steps: Tensor) -> Tensor:
    """The number of the judgement that is nearest to each number of steps; 0 is the start."""
    judged = torch.tensor([0, *task.judged_steps], dtype=torch.float64)
    return torch.bucketize(steps, (judged[1:] + judged[:-1]) / 2)


@dataclass(frozen=True)
class TimedRuns:
    """Final runs of all entries by seed, of which each resample of the seeds has other times.

    The moment when the reference has ended is known as well as the times are. So each resample
    has its own judgement that counts, from the medians of the times that were drawn.
    """

    task: Task
    runs: Mapping[str, Mapping[int, Result]]

    def scores(self, name: str, seeds: Sequence[int]) -> Tensor:
        """Mean score ``[resamples]`` of an entry in all resamples of seeds, higher is better."""
        return self._means(name, seeds, self._curves(name, seeds))

    def leads(self, name: str, seeds: Sequence[int]) -> Tensor:
        """Mean lead ``[resamples]`` of an entry over the reference in all resamples of seeds."""
        reference = self._curves(self.task.reference, seeds)[:, -1:]
        return self._means(name, seeds, self._curves(name, seeds) - reference)

    def _means(self, name: str, seeds: Sequence[int], curves: Tensor) -> Tensor:
        budget, own = (_medians(self._seconds(each, seeds)) for each in (self.task.reference, name))
        judgement = nearest_judgement(self.task, self.task.steps * budget / own)
        return resampled_means(curves).gather(1, judgement.unsqueeze(1)).squeeze(1)

    def _curves(self, name: str, seeds: Sequence[int]) -> Tensor:
        """Scores ``[seeds, 1 + judgements]``; minus infinity at the start, and of a failed run."""
        sign = 1 if self.task.higher_wins else -1
        curves = torch.full((len(seeds), 1 + len(self.task.judged_steps)), -torch.inf).double()
        for row, result in zip(curves, self._results(name, seeds), strict=True):
            if result:
                row[1:] = sign * torch.tensor(result.scores, dtype=torch.float64)
        return curves

    def _seconds(self, name: str, seeds: Sequence[int]) -> tuple[float, ...]:
        """Time of each seed; NaN of a failed run."""
        results = self._results(name, seeds)
        return tuple(each.seconds if each else torch.nan for each in results)

    def _results(self, name: str, seeds: Sequence[int]) -> list[Result | None]:
        """Results of the seeds; None of a failed run, and of an entry without final runs."""
        found = [self.runs[name].get(seed) for seed in seeds]
        return [None if result is None or result.error else result for result in found]


@lru_cache(maxsize=64)
def _medians(seconds: tuple[float, ...]) -> Tensor:
    return resampled_medians(torch.tensor(seconds, dtype=torch.float64))
