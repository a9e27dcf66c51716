"""Methods that take a step of an optimizer at the orchestrator, with the mean change as its gradient."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch

from paceline.checks import Positive
from paceline.learning.aggregation.base import Aggregated, Start
from paceline.learning.aggregation.means import MeanAggregation
from paceline.learning.averaging import State, widened


@dataclass(frozen=True, kw_only=True)
class ServerStepAggregation(MeanAggregation):
    """Base of methods that step along the mean change; buffers and whole numbers are averaged.

    Attributes:
        lr: learning rate of the orchestrator's optimizer.
    """

    lr: Positive

    @property
    def remembers(self) -> bool:
        return True

    def step(self, start: Start, mean: State, memory: State) -> Aggregated:
        kept: State = {}
        for name in start.trained():
            before = widened(start.parameters[name])
            change = widened(mean[name]) - before
            own = {key: memory.get(f"{key}.{name}", initial) for key, initial in self.initial(change).items()}
            moved, own = self.move(change, own)
            mean[name] = (before + self.lr * moved).to(mean[name].dtype)
            kept |= {f"{key}.{name}": tensor for key, tensor in own.items()}
        return Aggregated(mean, kept)

    @abstractmethod
    def initial(self, change: torch.Tensor) -> State:
        """Return what is remembered of a parameter before its first step, by key."""

    @abstractmethod
    def move(self, change: torch.Tensor, own: State) -> tuple[torch.Tensor, State]:
        """Return how far to move a parameter, but for the learning rate, and what to remember of it."""
