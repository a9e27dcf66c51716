"""Averaging updates as they arrive: one pass over each, none kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
import torch

_NAME_LENGTH = 80  # of a parameter that came from elsewhere, in a message

State: TypeAlias = dict[str, torch.Tensor]
"""A model's parameters and buffers by name, as `torch.nn.Module.state_dict` gives them."""


class AggregationSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How updates become the next parameters.

    Attributes:
        method: ``fedavg`` averages by samples trained; ``fedprox`` does too, and keeps local training near the
            parameters it started from.
        mu: strength of FedProx's proximal term.
    """

    method: Literal["fedavg", "fedprox"] = "fedavg"
    mu: float = 0.0

    def __post_init__(self) -> None:
        if self.method == "fedprox" and not 0 < self.mu < float("inf"):
            raise ValueError(f"mu is {self.mu}; fedprox needs one above 0")
        if self.method == "fedavg" and self.mu:
            raise ValueError(f'mu is {self.mu}, but fedavg has none; use method = "fedprox"')


MAX_GROWTH = 1e6
"""Limit of an update's values, as a multiple of the largest value so far, or of 1."""


class RunningAverage:
    """Weighted average of the states added so far; holds one state, however many are added."""

    def __init__(self) -> None:
        self._mean: State = {}
        self.num_states = 0
        self.weight = 0.0

    def add(self, state: Mapping[str, torch.Tensor], weight: float) -> None:
        """Add a state; it is read once and not kept."""
        self.num_states += 1
        self.weight += weight
        if not self._mean:
            self._mean = {name: _accumulator(tensor) for name, tensor in state.items()}
            return
        share = weight / self.weight
        for name, tensor in state.items():
            mean = self._mean[name]
            mean.lerp_(tensor.to(mean.dtype), share)

    def result(self, like: Mapping[str, torch.Tensor]) -> State:
        """Return the average in the types of `like`, whole numbers rounded; call it after the last `add`."""
        return {name: _as_type(mean, like[name].dtype) for name, mean in self._mean.items()}


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
    """Decides which updates may be averaged; the state to compare them with is measured once.

    Args:
        like: state that they were trained from.
    """

    def __init__(self, like: Mapping[str, torch.Tensor]) -> None:
        self._like = like
        self._most = {name: MAX_GROWTH * max(1.0, _largest(tensor)) for name, tensor in like.items()}

    def why_unusable(self, state: Mapping[str, torch.Tensor]) -> str | None:
        """Return what is wrong with an update; None if it can be averaged."""
        reason = why_unlike(state, self._like)
        if reason is not None:
            return reason
        for name, most in self._most.items():
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


def _accumulator(tensor: torch.Tensor) -> torch.Tensor:
    # Whole numbers and halves would lose too much on the way.
    if tensor.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        return tensor.clone()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _as_type(mean: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not (dtype.is_floating_point or dtype.is_complex):
        mean = mean.round()
    return mean.to(dtype)
