"""Estimators by name."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from carms.estimators.arms import Arms, Disarm
from carms.estimators.arsm import Arm, Arsm
from carms.estimators.base import Draw, Estimator
from carms.estimators.carms import Carms, carms_g, carms_g_biased, carms_i, carms_s, carts
from carms.estimators.carms_t import CarmsT
from carms.estimators.direct_argmax import DirectArgmax
from carms.estimators.disarm_tree import DisarmTree
from carms.estimators.double_cv import DoubleCV
from carms.estimators.exact import Exact
from carms.estimators.finite_difference import FiniteDifference
from carms.estimators.gapped_straight_through import GappedStraightThrough
from carms.estimators.gumbel_rao import GumbelRao
from carms.estimators.gumbel_softmax import GumbelSoftmax, StraightThroughGumbelSoftmax
from carms.estimators.indecater import Indecater
from carms.estimators.local_expectation import LocalExpectation
from carms.estimators.loorf import Loorf
from carms.estimators.measure_valued import MeasureValued
from carms.estimators.muprop import MuProp
from carms.estimators.rebar import Rebar
from carms.estimators.reinforce import Reinforce
from carms.estimators.reinmax import ReinMax
from carms.estimators.reinmax_cv import ReinMaxCV
from carms.estimators.reinmax_rao import ReinMaxRao
from carms.estimators.relax import Relax
from carms.estimators.ridge import Ridge
from carms.estimators.rodeo import Rodeo
from carms.estimators.straight_through import StraightThrough
from carms.estimators.unord import Unord
from carms.options import whole_number

__all__ = ["Carms", "Draw", "Estimator", "available", "make"]

_REGISTRY: dict[str, Callable[..., Estimator]] = {
    "arm": Arm,
    "arms": Arms,
    "arsm": Arsm,
    "carms-g": carms_g,
    "carms-g-biased": carms_g_biased,
    "carms-i": carms_i,
    "carms-s": carms_s,
    "carms-t": CarmsT,
    "carts": carts,
    "direct-argmax": DirectArgmax,
    "disarm": Disarm,
    "disarm-tree": DisarmTree,
    "double-cv": DoubleCV,
    "exact": Exact,
    "finite-difference": FiniteDifference,
    "gapped-st": GappedStraightThrough,
    "gr-mc": GumbelRao,
    "gumbel-softmax": GumbelSoftmax,
    "indecater": Indecater,
    "local-expectation": LocalExpectation,
    "loorf": Loorf,
    "measure-valued": MeasureValued,
    "muprop": MuProp,
    "rebar": Rebar,
    "reinforce": Reinforce,
    "reinmax": ReinMax,
    "reinmax-cv": ReinMaxCV,
    "reinmax-rao": ReinMaxRao,
    "relax": Relax,
    "ridge": Ridge,
    "rodeo": Rodeo,
    "st-gumbel-softmax": StraightThroughGumbelSoftmax,
    "straight-through": StraightThrough,
    "unord": Unord,
}

_ALIASES = {"vargrad": "loorf", "u2g": "disarm"}


def available() -> tuple[str, ...]:
    """The names that ``make`` and ``carms.expectation`` know, sorted."""
    return tuple(sorted(_REGISTRY))


def make(name: str, **options: Any) -> Estimator:
    """The estimator behind a name.

    Args:
        name: one of ``available``.
        options: ``samples`` and whatever else the estimator takes.

    Examples:
        >>> make("loorf", samples=4)
        Loorf(samples=4)
    """
    factory = _REGISTRY.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if factory is None:
        name = str(name)
        if name == "vimco":
            raise ValueError(
                "vimco is for the importance-weighted bound, not for an expectation: use "
                "carms.importance_bound"
            )
        near = get_close_matches(name, [*_REGISTRY, *_ALIASES], n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(available())}"
        )
        raise ValueError(f"unknown estimator {name!r}; {hint}")
    known = inspect.signature(factory).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(
            f"{name} has no option {', '.join(unknown)}; its options are {', '.join(known)}"
        )
    if "samples" in options:
        options["samples"] = whole_number("samples", options["samples"])
    return factory(**options)
