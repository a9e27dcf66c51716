"""Text of any origin as one line for a terminal."""

from __future__ import annotations

_MAX_LENGTH = 1000


def one_line(text: str) -> str:
    """Return the text on one line, without control characters; very long text is cut."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 2 * _MAX_LENGTH])
    line = " ".join(shown.split())
    return line if len(line) <= _MAX_LENGTH and len(text) <= 2 * _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"
