"""Correlated rollouts of autoregressive models, and the correction that keeps them unbiased."""

from carms.sequences.causal_lm import causal_lm
from carms.sequences.correction import advantages, pair_ratio, surrogate
from carms.sequences.coupling import default_epsilon
from carms.sequences.finished import Places, drift, places, ratios
from carms.sequences.processor import CoupledProcessor
from carms.sequences.record import Rollouts
from carms.sequences.sampling import rollouts

__all__ = [
    "CoupledProcessor",
    "Places",
    "Rollouts",
    "advantages",
    "causal_lm",
    "default_epsilon",
    "drift",
    "pair_ratio",
    "places",
    "ratios",
    "rollouts",
    "surrogate",
]
