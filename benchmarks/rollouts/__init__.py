"""Correlated rollouts, measured: each file prints one table, or two."""
