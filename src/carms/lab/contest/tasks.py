"""The tasks of the contest, the cheapest first."""

from carms.lab.contest.addition import ROLLOUTS
from carms.lab.contest.control import CONTROL
from carms.lab.contest.features import FEATURES
from carms.lab.contest.images import image_task
from carms.lab.contest.routing import ROUTING
from carms.lab.contest.task import Task
from carms.lab.runs.settings import Settings

__all__ = ["TASKS"]

RATES = (3e-4, 1e-3, 3e-3)
# Evaluations of f for a step where one takes long: as few as a user would pay for.
FEW = 4

_DIGITS = (
    image_task(
        "digits",
        "The paper's nonlinear autoencoder of the digits of scikit-learn: 20 variables of ten "
        "categories",
        Settings(dataset="digits", steps=1000),
        RATES,
        every=100,
        seeds=10,
        trials=2,
    ),
    image_task(
        "digits-binary",
        "The same autoencoder with 20 binary variables",
        Settings(dataset="digits", categories=2, latents=20, samples=10, steps=1000),
        RATES,
        every=100,
        seeds=10,
        trials=2,
    ),
)
_MNIST = (
    image_task(
        "mnist-linear",
        "The paper's linear autoencoder of dynamically binarised MNIST",
        Settings(network="linear", samples=FEW, steps=10_000),
        RATES,
        every=250,
        seeds=5,
        trials=1,
    ),
    image_task(
        "mnist-nonlinear",
        "The paper's nonlinear autoencoder of dynamically binarised MNIST",
        Settings(network="nonlinear", samples=FEW, steps=10_000),
        RATES,
        every=250,
        seeds=5,
        trials=1,
    ),
    image_task(
        "mnist-complete",
        "The lower half of an image of MNIST from the upper one",
        Settings(task="complete", samples=FEW, steps=5000),
        RATES,
        every=250,
        seeds=5,
        trials=1,
    ),
)

TASKS: dict[str, Task] = {
    task.name: task for task in (FEATURES, ROUTING, CONTROL, *_DIGITS, ROLLOUTS, *_MNIST)
}
