"""What all rooms share, one idea a file; imports nothing else of ours."""

from carms.core.memory import keep_freed_memory

keep_freed_memory()
