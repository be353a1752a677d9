"""Training, evaluation and measurement of a model."""
