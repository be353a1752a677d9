"""Tools that all other packages share, one idea a file; they import no other package of ours."""

from carms.core.memory import keep_freed_memory

keep_freed_memory()
