"""What an optimizer remembers of a model's parameters, such as momentum: to be sent, kept, and taken up again."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.averaging import State

PREFIX = "optimizer/"
"""Beginning of names under which an optimizer's memory is kept: then the parameter's name, a slash, and torch's key."""

_MAX_KEYS = 8  # of a parameter; torch's optimizers have up to five
_MAX_KEY = 40  # characters


def memory_of(optimizer: torch.optim.Optimizer, module: nn.Module) -> State:
    """Copy what an optimizer remembers of a module's parameters, to the CPU; nothing before its first step."""
    return {
        f"{PREFIX}{name}/{key}": value.detach().to("cpu", copy=True)
        for name, parameter in module.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def load_memory(optimizer: torch.optim.Optimizer, module: nn.Module, memory: Mapping[str, torch.Tensor]) -> None:
    """Have an optimizer remember this, and nothing else; raises `ConfigError` for what is of other parameters."""
    parameters = dict(module.named_parameters())
    why = why_no_memory(memory, parameters)
    if why is not None:
        raise ConfigError(f"the memory of the optimizer does not fit: {why}")
    optimizer.state.clear()
    for full, value in memory.items():
        name, key = _parts(full)
        parameter = parameters[name]
        # Counts of steps stay on the CPU, as torch has them.
        optimizer.state[parameter][key] = value.clone().to(parameter.device if value.dim() else "cpu")


def split_off(tensors: Mapping[str, torch.Tensor]) -> tuple[State, State]:
    """Return the tensors that are parameters, and those that an optimizer remembers."""
    memory = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
    return {name: tensor for name, tensor in tensors.items() if name not in memory}, memory


def why_no_memory(memory: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]) -> str | None:
    """Return why tensors cannot be what an optimizer remembers of these parameters; None if they can."""
    if len(memory) > _MAX_KEYS * len(parameters):
        return f"{len(memory)} tensors are too many for {len(parameters)} parameters"
    for full, value in memory.items():
        name, key = _parts(full)
        parameter = parameters.get(name)
        if parameter is None or not key.isidentifier() or len(key) > _MAX_KEY:
            return f"there is no {full[:80]!r}"
        if value.numel() > max(1, parameter.numel()) or value.dtype.is_complex:
            return f"{full} has shape {tuple(value.shape)}, and its parameter {tuple(parameter.shape)}"
        if not bool(torch.isfinite(value).all()):
            return f"{full} holds NaN or infinity"
    return None


def _parts(full: str) -> tuple[str, str]:
    name, _, key = full.removeprefix(PREFIX).rpartition("/")
    return name, key
