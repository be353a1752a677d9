"""The command ``carms``, also ``python -m carms``."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; an interrupt while it is being imported ends it quietly."""
    try:
        from carms.lab.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
