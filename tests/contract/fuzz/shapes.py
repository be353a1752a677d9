"""Shapes of whatever was given as logits."""

from torch import Tensor
from torch.distributions import Bernoulli, Categorical


def shape_of(given):
    binary = isinstance(given, Bernoulli)
    given = getattr(given, "_categorical", given)
    given = given._param if isinstance(given, Bernoulli | Categorical) else given
    if not isinstance(given, Tensor) or given.is_nested:
        return None
    return (*given.shape, 2) if binary else tuple(given.shape)


def variables_of(given):
    shape = shape_of(given)
    return shape[-2] if shape and len(shape) > 1 else 2
