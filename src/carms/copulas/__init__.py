"""Correlated uniforms: each copula samples them and knows the joint CDF of any two."""

from carms.copulas.base import Copula
from carms.copulas.circular import Circular
from carms.copulas.dirichlet import Dirichlet
from carms.copulas.gaussian import Gaussian
from carms.copulas.hole import Hole
from carms.copulas.independent import Independent
from carms.copulas.stratified import Stratified

__all__ = ["Circular", "Copula", "Dirichlet", "Gaussian", "Hole", "Independent", "Stratified"]
