"""The packages that only the lab needs, and how to get them."""

import importlib
from typing import Any

__all__ = ["how_to_install", "needed"]


def how_to_install(extra: str) -> str:
    """The command that installs an extra of this package.

    Examples:
        >>> how_to_install("lab")
        "pip install 'carms[lab]', or pip install '.[lab]' in a copy of its source"
    """
    return f"pip install 'carms[{extra}]', or pip install '.[{extra}]' in a copy of its source"


def needed(module: str) -> Any:
    """Import a module that only the lab needs, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module.split('.')[0]} cannot be imported: {how_to_install('lab')}"
        ) from error
