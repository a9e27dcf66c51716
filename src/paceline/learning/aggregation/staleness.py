"""Late updates: their change, discounted, moved to the parameters of a later round."""

from __future__ import annotations

from paceline.learning.averaging import as_type, widened
from paceline.learning.vectors import Vectors


def discount(num_rounds: int, exponent: float) -> float:
    """Return what of a change counts that is so many rounds late, as in FedBuff (Nguyen et al., 2022)."""
    return float((1 + num_rounds) ** -exponent)


def rebased(parameters: Vectors, old_start: Vectors, new_start: Vectors, factor: float) -> Vectors:
    """Return the update that would have changed a new start as this one changed its own, times a factor."""
    moved = {}
    for name, trained in parameters.items():
        new, change = widened(new_start[name]), widened(trained) - widened(old_start[name])
        moved[name] = as_type(new + factor * change, trained.dtype)
    return moved
