"""``python -m carms``."""

from carms_command import main

main()
