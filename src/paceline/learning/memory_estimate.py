"""What a training step takes in memory, estimated without taking any: on a device that has only shapes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from paceline.learning import models
from paceline.learning.training_spec import TrainingSpec

_COPIES = 4  # of the parameters: themselves, their gradients, and two moments of the optimizer
_PASSES = 2  # of each layer's output: forward and back
_TRIED = 2  # samples


def model_bytes(spec: TrainingSpec) -> int:
    """Return the size of a named model's parameters and buffers; 0 for one of the user's own."""
    return 0 if spec.chosen_model.name is None else _size_of(_module_of(spec))


def step_bytes(spec: TrainingSpec, num_samples: int) -> int:
    """Estimate what a step of a named model takes: its parameters, and what its layers put out for a minibatch.

    Args:
        num_samples: samples that there are; a minibatch has no more.
    """
    if spec.chosen_model.name is None:
        return 0
    module, outputs = _module_of(spec), 0

    def count(layer: nn.Module, given: Any, output: Any) -> None:
        nonlocal outputs
        found = output if isinstance(output, tuple) else (output,)
        outputs += sum(one.numel() * one.element_size() for one in found if isinstance(one, torch.Tensor))

    for layer in module.modules():
        if not list(layer.children()):
            layer.register_forward_hook(count)
    dtype = torch.int64 if spec.chosen_model.name in models.TOKEN_MODELS else torch.float32
    tried = torch.zeros((_TRIED, *spec.input_shape), dtype=dtype, device="meta")
    with torch.no_grad():
        module.eval()(tried)
    samples = min(spec.batch_size, num_samples)
    return _COPIES * _size_of(module) + _PASSES * outputs * samples // _TRIED


def _module_of(spec: TrainingSpec) -> nn.Module:
    with torch.device("meta"):
        return models.build(spec.chosen_model, spec.input_shape, spec.num_outputs)


def _size_of(module: nn.Module) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*module.parameters(), *module.buffers()))
