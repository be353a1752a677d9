"""Training of estimators that have parameters, before they are compared."""

import torch

from carms.comparison.problem import Problem
from carms.estimators import Estimator

__all__ = ["train_parameters"]

# The learning rate, the best of five on the problems of `examples/shelf.py`.
RATE = 1e-2


def train_parameters(
    estimator: Estimator, problem: Problem, steps: int, generator: torch.Generator | None
) -> None:
    """Train the parameters of the estimator with Adam to lower its variance."""
    # Some parameters have a shape only after the first call.
    problem.value(estimator, generator)
    parameters = [each for each in estimator.parameters() if each.requires_grad]
    optimiser = torch.optim.Adam(parameters, RATE)
    for _ in range(steps):
        value = problem.value(estimator, generator).sum()
        gradients = torch.autograd.grad(value, parameters, retain_graph=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimiser.step()
