"""All subsets, or all rankings, as the categories of one variable."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from carms.core.variables import Variables
from carms.estimators import Draw as CategoricalDraw
from carms.estimators.families.score_function import ScoreFunction as OverCategories
from carms.subsets.base import ScoreFunction, Weighting
from carms.subsets.enumeration import with_log_probs

__all__ = ["ByCategories", "OfCategories"]


class ByCategories(ScoreFunction):
    """Estimators of one categorical variable, whose categories are the subsets or rankings."""

    def _draw(self, logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Weighting]:
        items, log_p = with_log_probs(self, logits)
        variable = Variables(log_p.movedim(0, -1).unsqueeze(-2))
        estimator = self._over_categories(len(items))
        draw = estimator.draw_unchecked(variable, variable.logits.softmax(-1), generator)
        return items[draw.drawn.squeeze(-1)], OfCategories(estimator, draw)

    @abstractmethod
    def _over_categories(self, total: int) -> OverCategories:
        """The estimator for a variable of ``total`` categories."""


@dataclass(frozen=True)
class OfCategories(Weighting):
    """Weighs the drawn categories as their estimator does."""

    estimator: OverCategories
    draw: CategoricalDraw

    def weights(self, fz: Tensor) -> Tensor:
        return self.estimator.weights(self.draw, fz.unsqueeze(-1)).squeeze(-1)

    def value(self, fz: Tensor) -> Tensor:
        return self.estimator.value(self.draw, fz)
