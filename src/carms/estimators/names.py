"""Names of estimators as a type, so that editors complete them."""

from typing import Literal, TypeAlias

__all__ = ["Name"]

# A type checker cannot read the registry. A test compares this list with it.
Name: TypeAlias = Literal[
    "arm",
    "arms",
    "arsm",
    "carms-g",
    "carms-g-biased",
    "carms-i",
    "carms-s",
    "carms-t",
    "carts",
    "direct-argmax",
    "disarm",
    "disarm-tree",
    "double-cv",
    "exact",
    "finite-difference",
    "gapped-st",
    "gr-mc",
    "gumbel-softmax",
    "indecater",
    "local-expectation",
    "loorf",
    "measure-valued",
    "muprop",
    "rebar",
    "reinforce",
    "reinmax",
    "reinmax-cv",
    "reinmax-rao",
    "relax",
    "ridge",
    "rloo",
    "rodeo",
    "st-gumbel-softmax",
    "straight-through",
    "u2g",
    "unord",
    "vargrad",
]
