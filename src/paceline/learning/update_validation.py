"""Validation of updates: which of them may be aggregated, and what is wrong with the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import torch

from paceline.learning.averaging import State

_NAME_LENGTH = 80  # of a parameter that came from elsewhere, in a message

MAX_GROWTH = 1e6
"""Limit of an update's values, as a multiple of the largest value at the start, or of 1."""

Limits: TypeAlias = Mapping[str, float]
"""Largest magnitude that values may have, by name."""


def limits_of(start: Mapping[str, torch.Tensor]) -> Limits:
    """Return the limits of values in all that is ever trained from this state."""
    return {name: MAX_GROWTH * max(1.0, _largest(tensor)) for name, tensor in start.items()}


def why_unlike(state: Mapping[str, torch.Tensor], like: Mapping[str, torch.Tensor]) -> str | None:
    """Return how the names, shapes or types of a state differ from those of another; None if they agree."""
    if state.keys() != like.keys():
        missing, extra = sorted(like.keys() - state.keys()), sorted(state.keys() - like.keys())
        named = [name[:_NAME_LENGTH] for name in (missing or extra)[:3]]
        return f"parameters {named} are missing" if missing else f"there are no parameters {named}"
    for name, expected in like.items():
        tensor = state[name]
        if tensor.shape != expected.shape:
            return f"{name} has shape {tuple(tensor.shape)}, not {tuple(expected.shape)}"
        if tensor.dtype != expected.dtype:
            return f"{name} has type {tensor.dtype}, not {expected.dtype}"
    return None


class UpdateValidator:
    """Decides which updates may be aggregated.

    Args:
        limits: limits of their values; None for those of `like`.

    Attributes:
        like: state that they were trained from.
    """

    def __init__(self, like: State, limits: Limits | None = None) -> None:
        self.like = like
        self._limits = limits_of(like) if limits is None else limits

    def following(self, state: State) -> UpdateValidator:
        """Return that of updates trained from the next state, with the same limits.

        Raises `ValueError` if an update like that is unusable.
        """
        reason = self.why_unusable(state)
        if reason is not None:
            raise ValueError(reason)
        return UpdateValidator(state, self._limits)

    def why_unusable(self, state: Mapping[str, torch.Tensor]) -> str | None:
        """Return what is wrong with an update; None if it can be aggregated."""
        return self.why_unlike(state) or self.why_diverged(state)

    def why_unlike(self, state: Mapping[str, torch.Tensor]) -> str | None:
        """Return how names, shapes or types differ; None if they agree."""
        return why_unlike(state, self.like)

    def why_diverged(self, state: Mapping[str, torch.Tensor]) -> str | None:
        """Return which values no training that goes well leads to; None if there are none."""
        for name, most in self._limits.items():
            largest = _largest(state[name])
            if not math.isfinite(largest):
                return f"{name} holds NaN or infinity"
            if largest > most:
                return f"{name} holds values of {largest:.3g}; {most:.3g} is the limit"
        return None


def _largest(tensor: torch.Tensor) -> float:
    """Return the largest magnitude, or NaN if there is one; 0 for no values, and for whole numbers."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    if tensor.dtype.itemsize == 1:  # torch compares no floats of 8 bits
        tensor = tensor.to(torch.float16)
    low, high = torch.aminmax(tensor)  # one pass, nothing allocated; NaN comes through
    return max(-float(low), float(high)) if math.isfinite(low) else float(low)
