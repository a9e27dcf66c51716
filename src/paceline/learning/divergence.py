"""Training that diverges: how it is noticed, and what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from paceline.errors import DivergedError

MAX_LOSS_GROWTH = 1e4
"""Limit of a loss, as a multiple of the lowest so far, or of 1."""

_ADVICE = "try a lower learning rate (lr), clip the gradients, or check the data"


def diverged(where: str, what: str) -> DivergedError:
    """Make the error: where training diverged (round or epoch, devices), what shows it, and what to try."""
    return DivergedError(f"training diverged in {where}: {what}; {_ADVICE}")


def has_exploded(loss: float, lowest: float | None = None) -> bool:
    """Return whether a loss is NaN or infinite, or far beyond the lowest so far."""
    return not math.isfinite(loss) or (lowest is not None and loss > MAX_LOSS_GROWTH * max(lowest, 1.0))


def are_finite(state: Mapping[str, torch.Tensor]) -> bool:
    """Return whether no value is NaN or infinite."""
    return all(_is_finite(tensor) for tensor in state.values())


def _is_finite(tensor: torch.Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    # A sum is the fastest look; it may overflow where no value is infinite.
    return math.isfinite(abs(tensor.sum().item())) or bool(torch.isfinite(tensor).all())
