"""What holds where a user says nothing."""

__all__ = ["DEFAULT_SAMPLES"]

DEFAULT_SAMPLES = 8
