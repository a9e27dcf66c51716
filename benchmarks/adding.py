"""Training that takes no time worth mentioning: a number is added to every parameter, so that averages are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch

from paceline.devices.machines import LiveMachine
from paceline.learning.shards import Shard
from paceline.learning.trainers import DEFAULT_OPTIONS, Trained, Trainer, TrainOptions
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import Layout, Vectors


def initial_state(widths: Sequence[int]) -> dict[str, torch.Tensor]:
    """Weights and biases of zero, by name."""
    state = {}
    for number, (num_inputs, num_outputs) in enumerate(pairwise(widths)):
        state[f"{number}.weight"] = torch.zeros(num_outputs, num_inputs)
        state[f"{number}.bias"] = torch.zeros(num_outputs)
    return state


def is_everywhere(expected: float, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether every parameter has this value, but for rounding."""
    return all(
        math.isclose(float(value), expected, rel_tol=1e-4)
        for tensor in tensors
        for value in (tensor.min(), tensor.max())
    )


class AddingTrainer(Trainer):
    """Adds its number to every parameter.

    Args:
        is_in_place: whether the given parameters may be changed: those that only this trainer has.
    """

    def __init__(self, number: int, widths: Sequence[int], *, is_in_place: bool) -> None:
        self._number = number
        self._widths = widths
        self._is_in_place = is_in_place

    def initial_parameters(self) -> Vectors:
        state = initial_state(self._widths)
        return Layout(state).pack(state)

    async def train(
        self, parameters: Vectors, shards: Sequence[Shard], options: TrainOptions = DEFAULT_OPTIONS
    ) -> Trained:
        add = torch.Tensor.add_ if self._is_in_place else torch.Tensor.add
        added = {kind: add(vector, self._number) for kind, vector in parameters.items()}
        return Trained(added, options.local_epochs * sum(shard.num_samples for shard in shards), 1e-3, False)


class AddingMachine(LiveMachine):
    """This machine, with a trainer that only adds."""

    def __init__(self, trainer: AddingTrainer) -> None:
        super().__init__()
        self._trainer = trainer

    def trainer(self, spec: TrainingSpec) -> Trainer:
        return self._trainer
