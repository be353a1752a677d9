"""Build the model of a run."""

import torch
from torch import Tensor

from carms.lab.models.completion import Completion
from carms.lab.models.latent import LatentModel
from carms.lab.models.vae import DiscreteVae
from carms.lab.runs.settings import Settings

__all__ = ["build_model"]

MODELS: dict[str, type[DiscreteVae] | type[Completion]] = {
    "vae": DiscreteVae,
    "complete": Completion,
}


def build_model(settings: Settings, mean: Tensor) -> LatentModel:
    """The model of a run with its first weights; an error if one of that size cannot be built.

    Args:
        settings: what to build.
        mean: ``[pixels]`` of the training set.
    """
    weights = torch.Generator().manual_seed(settings.seed)
    try:
        return MODELS[settings.task](settings.shape, settings.network, mean, weights)
    except (RuntimeError, TypeError, MemoryError) as error:
        variables, categories = settings.shape
        raise ValueError(
            f"a model of {variables:,} variables with {categories:,} categories cannot be built "
            f"here: {str(error).splitlines()[0]}"
        ) from error
