"""Numbers in words."""

__all__ = ["counted", "duration"]


def counted(number: int, noun: str) -> str:
    """A number of things.

    Examples:
        >>> counted(1, "run"), counted(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """A time in the unit in which it is read at a glance.

    Examples:
        >>> duration(8000), duration(4.2)
        ('2.2 hours', '4.2 seconds')
    """
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"
