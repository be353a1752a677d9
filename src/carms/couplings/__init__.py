"""Copulas turned into categorical samples, with the ratio of every drawn pair."""

from carms.couplings.base import Coupling
from carms.couplings.gumbel_max import BiasedGumbelMax, GumbelMax
from carms.couplings.inverse_cdf import InverseCDF

__all__ = ["BiasedGumbelMax", "Coupling", "GumbelMax", "InverseCDF"]
