"""Text from anywhere as one line for a terminal."""

from __future__ import annotations

_MAX_LENGTH = 1000


def one_line(text: str) -> str:
    """The text on one line, without what a terminal would obey; cut if it is very long."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 2 * _MAX_LENGTH])
    line = " ".join(shown.split())
    return line if len(line) <= _MAX_LENGTH and len(text) <= 2 * _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"
