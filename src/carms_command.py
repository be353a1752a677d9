"""The command ``carms``, outside of the package so that it can guard the package's import."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interrupt while it is imported, for seconds, ends quietly."""
    try:
        from carms.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
