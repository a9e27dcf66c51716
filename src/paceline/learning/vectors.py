"""Parameters as they are sent and averaged: one vector per type, however many tensors there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import torch

from paceline.errors import ConfigError, in_one_line
from paceline.learning.averaging import State

Vectors: TypeAlias = dict[str, torch.Tensor]
"""All values of a state, as one vector per type, such as ``float32``."""

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Parts of a vector, each from its first position to the one behind its last, in ascending order."""


class Layout:
    """Positions of a state's tensors in their vectors, sorted by name, so that both ends agree.

    Attributes:
        names: names of the tensors.
    """

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        self._names: dict[str, list[str]] = {}
        self._shapes = {name: tensor.shape for name, tensor in state.items()}
        self.names = frozenset(state)
        for name, tensor in sorted(state.items()):
            self._names.setdefault(_type_name(tensor), []).append(name)
        self._sizes = {kind: [self._shapes[name].numel() for name in names] for kind, names in self._names.items()}

    def pack(self, state: Mapping[str, torch.Tensor]) -> Vectors:
        """Copy a state's values into vectors, on the CPU."""
        return {
            kind: torch.cat([state[name].detach().reshape(-1) for name in names]).cpu()
            for kind, names in self._names.items()
        }

    def spans(self, chosen: Collection[str]) -> dict[str, Spans]:
        """Return where the tensors of these names are, by type; of types without any, nothing."""
        found: dict[str, list[tuple[int, int]]] = {}
        for kind, names in self._names.items():
            begin = 0
            for name, size in zip(names, self._sizes[kind], strict=True):
                if name in chosen:
                    found.setdefault(kind, []).append((begin, begin + size))
                begin += size
        return {kind: tuple(spans) for kind, spans in found.items()}

    def unpack(self, vectors: Mapping[str, torch.Tensor]) -> State:
        """Return the state as views of the vectors; raises `ConfigError` if they do not fit."""
        if vectors.keys() != self._sizes.keys():
            raise ConfigError(
                f"the parameters do not fit the model: types {sorted(vectors)}, not {sorted(self._sizes)}"
            )
        views: State = {}
        for kind, names in self._names.items():
            vector, sizes = vectors[kind], self._sizes[kind]
            if _type_name(vector) != kind or vector.shape != (sum(sizes),):
                found = f"{_type_name(vector)} of shape {tuple(vector.shape)}"
                raise ConfigError(f"the parameters do not fit the model: {kind}: {found}, not {(sum(sizes),)}")
            for name, part in zip(names, torch.split(vector, sizes), strict=True):
                views[name] = part.view(self._shapes[name])
        return views


def copy_of(module: torch.nn.Module) -> State:
    """Copy a module's parameters and buffers, to the CPU."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in module.state_dict().items()}


def load_into(
    module: torch.nn.Module, state: Mapping[str, torch.Tensor], required: Collection[str] | None = None
) -> None:
    """Set a module's parameters and buffers; raises `ConfigError` if they do not fit.

    Args:
        required: names that must be there, where others may be left out; None for all.
    """
    try:
        lacking = module.load_state_dict(state, strict=required is None)
        if required is not None:
            missing = sorted(name for name in lacking.missing_keys if name in required)
            if missing or lacking.unexpected_keys:
                what = f"lacks {missing[0]}" if missing else f"has {lacking.unexpected_keys[0]}"
                raise RuntimeError(f"the state {what}")
    except RuntimeError as error:
        raise ConfigError(f"the parameters do not fit the model: {in_one_line(error)}") from error


def _type_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
