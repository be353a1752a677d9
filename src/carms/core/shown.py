"""The options of an object, as its text shows them."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch

__all__ = ["described", "shown_options"]


def described(name: str, options: Mapping[str, Any]) -> str:
    """A name with its options.

    Examples:
        >>> described("carms-i", {"samples": 4, "copula": "circular"})
        "carms-i(samples=4, copula='circular')"
        >>> described("carms-i", {})
        'carms-i'
    """
    listed = ", ".join(f"{option}={value!r}" for option, value in options.items())
    return f"{name}({listed})" if listed else name


def shown_options(thing: object, *always: str) -> dict[str, Any]:
    """The options with which an object was made, by name: some always, and the others if they are
    not at their defaults. Tensors and networks are left out.

    Args:
        thing: an object that keeps its options under the names of its arguments.
        always: names of the options to show in any case.
    """
    shown = {option: getattr(thing, option) for option in always}
    for option, parameter in signature(type(thing)).parameters.items():
        value = getattr(thing, option, None)
        hidden = value is None or isinstance(value, torch.Tensor | torch.nn.Module)
        if option not in shown and not hidden and value != parameter.default:
            shown[option] = value
    return shown
