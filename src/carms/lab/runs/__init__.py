"""A run: its settings, its directory, and how to read it."""
