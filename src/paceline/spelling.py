"""Messages about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: object, known: Iterable[str]) -> str:
    """End a message about an unknown name: suggest the nearest known one, if any is near, and list all."""
    allowed = list(known)
    by_lower = {candidate.lower(): candidate for candidate in allowed}
    near = difflib.get_close_matches(str(name).lower(), by_lower, 1)
    hint = f"did you mean {by_lower[near[0]]!r}? Allowed" if near else "allowed"
    return f"{hint}: {', '.join(allowed) or 'none'}"


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise `ValueError` for an unknown name."""
    if name not in known:
        raise ValueError(f"{what} {name!r} is unknown; {suggest(name, known)}")
