"""The contest: every estimator on the same tasks, with paired bootstrap intervals."""
