"""Facts about the registered estimators."""

import carms
from carms.estimators.carms_t import CarmsT
from carms.estimators.families.control_variate import ControlVariate


def named(**facts) -> tuple[str, ...]:
    """Names of all estimators of which these facts are true."""
    found = carms.available()
    for fact, value in facts.items():
        found = [name for name in found if getattr(carms.estimators.find(name), fact) == value]
    return tuple(found)


BINARY_ONLY = named(binary_only=True)
PAIRS = named(paired=True)
SOFT_POINTS = named(soft_points=True)
NOT_TANGENT = named(sums_to_zero=False)
LEARNED = named(learned=True)


def rows(name: str, samples: int, variables: int, categories: int) -> int | None:
    """Number of points at which an estimator evaluates ``f``, None if that is random."""
    return carms.make(name, samples=samples).evaluations(variables, categories)


def differentiates(name: str) -> bool:
    """Whether it takes derivatives itself, which neither the compiler nor ``vmap`` allows."""
    return isinstance(carms.make(name, samples=4), ControlVariate)


def takes_slopes(name: str) -> bool:
    """Whether it makes the gradient of slopes in a way that ``torch.func`` does not transform."""
    return differentiates(name) or isinstance(carms.make(name, samples=4), CarmsT)
