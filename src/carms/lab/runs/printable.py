"""Make text from untrusted files safe to show."""

__all__ = ["printable"]


def printable(text: str, limit: int | None = None) -> str:
    r"""The text in one line of at most ``limit`` characters, with escapes for unprintable ones.

    Control characters would command the terminal, lone surrogates cannot be encoded.

    Examples:
        >>> printable("\x1b[31mred\n")
        '\\x1b[31mred\\n'
        >>> printable("a long name", limit=7)
        'a long…'
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"
