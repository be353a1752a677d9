"""Titles of curves and of pictures, for figures and for pages."""

from typing import NamedTuple

__all__ = ["CURVES", "PICTURES", "PICTURES_OF", "CurveLabel", "PictureLabel"]


class CurveLabel(NamedTuple):
    """How a metric of ``metrics.jsonl`` is drawn."""

    metric: str
    title: str
    axis: str
    log: bool = False


class PictureLabel(NamedTuple):
    """What a picture of a model shows, and the names of rows that alternate in it."""

    title: str
    rows: tuple[str, ...] = ()


CURVES = (
    CurveLabel("objective", "Objective of the training batches", "nats"),
    CurveLabel("test_bound", "Bound on the test set, 10 samples", "nats"),
    CurveLabel("gradient_variance", "Variance of the logits' gradient", "variance", log=True),
)

PICTURES = {
    "reconstructions": PictureLabel("Test images and their reconstructions", ("original", "model")),
    "samples": PictureLabel("Samples of the model"),
    "completions": PictureLabel(
        "Test images, and their lower halves by the model", ("original", "model")
    ),
}

PICTURES_OF = {"vae": ("reconstructions", "samples"), "complete": ("completions",)}
"""Names of the pictures of a run, by its task."""
