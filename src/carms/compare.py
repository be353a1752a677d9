"""Bias, variance and cost of estimators on the user's own problem."""

__all__ = ["compare"]


def compare(): ...
