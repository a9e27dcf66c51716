"""Range checks of fields from their annotations, with the same message for Python and for files."""

from __future__ import annotations

import functools
import sys
import typing
from typing import Annotated, Any

from msgspec import Meta

_FINITE = sys.float_info.max  # msgspec takes no infinite bound

Count = Annotated[int, Meta(ge=1)]
"""Number of things, at least one."""
Seed = Annotated[int, Meta(ge=0)]
"""Seed of random draws."""
Positive = Annotated[float, Meta(gt=0, le=_FINITE)]
"""Finite number above 0."""
NotNegative = Annotated[float, Meta(ge=0, le=_FINITE)]
"""Finite number, at least 0."""
Ratio = Annotated[float, Meta(ge=0, le=1)]
"""Part of a whole, from 0 to 1."""
PositiveRatio = Annotated[float, Meta(gt=0, le=1)]
"""Part of a whole, above 0."""
RatioBelowOne = Annotated[float, Meta(ge=0, lt=1)]
"""Part of a whole, below 1."""
CountOrZero = Annotated[int, Meta(ge=0)]
"""Number of things, possibly none."""


def check_fields(owner: Any) -> None:
    """Raise `ValueError` for the first field of a struct or dataclass whose value is outside its annotated range."""
    for name, meta in _bounds_of(type(owner)).items():  # type: ignore[arg-type]
        reason = why_outside(getattr(owner, name), meta)
        if reason is not None:
            raise ValueError(f"{name} is {getattr(owner, name)}; {reason}")


def why_outside(value: Any, meta: Meta) -> str | None:
    """Return what is allowed if a number is outside a range; None if it is inside, or there is no value."""
    if value is None or (
        (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    ):
        return None
    bounds = {"at least": meta.ge, "above": meta.gt, "at most": meta.le, "below": meta.lt}
    named = {
        word: str(bound) if isinstance(bound, int) else f"{bound:g}"
        for word, bound in bounds.items()
        if bound is not None and bound != _FINITE
    }
    if named.keys() == {"at least", "at most"}:
        return f"allowed: {named['at least']} to {named['at most']}"
    return "it must be " + " and ".join(f"{word} {bound}" for word, bound in named.items())


def why_refused(value: Any, hint: Any) -> str | None:
    """Return what is allowed if a value is a number outside the range of an annotation; else None."""
    meta = range_of(hint)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return why_outside(value, meta) if meta is not None and is_number else None


@functools.cache
def _bounds_of(kind: Any) -> dict[str, Meta]:
    """Return the range of each field that has one."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = {name: range_of(hint) for name, hint in hints.items()}
    return {name: meta for name, meta in found.items() if meta is not None}


def range_of(hint: Any) -> Meta | None:
    """Return the range in an annotation, also where it may be None; None if it has none."""
    for part in (hint, *typing.get_args(hint)):
        for extra in getattr(part, "__metadata__", ()):
            if isinstance(extra, Meta) and any(b is not None for b in (extra.ge, extra.gt, extra.le, extra.lt)):
                return extra
    return None
