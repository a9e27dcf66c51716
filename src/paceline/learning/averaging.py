"""Averaging states as they arrive: one pass over each, none kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch

State: TypeAlias = dict[str, torch.Tensor]
"""A model's parameters and buffers by name, as `torch.nn.Module.state_dict` gives them."""


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
        return {name: as_type(mean, like[name].dtype) for name, mean in self._mean.items()}


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in a type to compute with: whole numbers and halves would lose too much on the way."""
    if tensor.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        return tensor
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def as_type(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a computed tensor in the type that it should have, whole numbers rounded."""
    if not (dtype.is_floating_point or dtype.is_complex):
        tensor = tensor.round()
    return tensor.to(dtype)


def _accumulator(tensor: torch.Tensor) -> torch.Tensor:
    wide = widened(tensor)
    return wide.clone() if wide is tensor else wide
