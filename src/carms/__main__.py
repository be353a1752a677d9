"""``python -m carms``."""

from carms.cli import main

main()
