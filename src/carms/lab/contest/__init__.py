"""The contest: every estimator on the same tasks, with statistics that can be trusted."""
