"""Runs as directories: their settings, the one writer and the readers."""
