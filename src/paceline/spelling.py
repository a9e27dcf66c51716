"""What to say about a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, if any is near, and all of them."""
    allowed = list(known)
    by_lower = {candidate.lower(): candidate for candidate in allowed}
    near = difflib.get_close_matches(str(name).lower(), by_lower, 1)
    hint = f"did you mean {by_lower[near[0]]!r}? Allowed" if near else "allowed"
    return f"{hint}: {', '.join(allowed) or 'none'}"
