"""Estimators by name. Each file that is imported here registers its estimators."""

# ruff: noqa: F401
from carms.estimators import (
    arm,
    arms,
    arsm,
    carms,
    carms_t,
    direct_argmax,
    disarm_tree,
    double_cv,
    exact,
    finite_difference,
    gapped_straight_through,
    gumbel_rao,
    gumbel_softmax,
    indecater,
    local_expectation,
    loorf,
    measure_valued,
    muprop,
    rebar,
    reinforce,
    reinmax,
    reinmax_cv,
    reinmax_rao,
    relax,
    ridge,
    rodeo,
    straight_through,
    unord,
)
from carms.estimators.base import Draw, Estimator
from carms.estimators.carms import Carms
from carms.estimators.names import Name
from carms.estimators.registry import available, find, make, register

__all__ = ["Carms", "Draw", "Estimator", "Name", "available", "find", "make", "register"]
