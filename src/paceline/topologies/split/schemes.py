"""What all ways to train over several sources have in common: what is brought to a meeting, and what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from paceline.learning.averaging import State
from paceline.learning.vectors import Vectors
from paceline.topologies.split.messages import Meeting, Tensors


@dataclass
class Tally:
    """What came of an epoch.

    Attributes:
        train_loss: the sum over all samples; None where it is not known.
        loss: the sum over `num_tested` test samples.
    """

    num_steps: int = 0
    num_samples: int = 0
    train_loss: float | None = None
    loss: float = 0.0
    num_right: int = 0
    num_tested: int = 0

    def count_step(self, loss: float, num_samples: int) -> None:
        """A minibatch was trained, with this mean loss."""
        self.num_steps += 1
        self.num_samples += num_samples
        self.train_loss = (self.train_loss or 0.0) + loss * num_samples

    def count_test(self, loss: float, num_right: int, num_samples: int) -> None:
        """Samples were judged, with this sum of losses."""
        self.loss += loss
        self.num_right += num_right
        self.num_tested += num_samples


class TrunkScheme(ABC):
    """The trunk's side.

    Attributes:
        takes_newcomers: whether sources may come after training has begun.
        tally: of the epoch that is on.
    """

    takes_newcomers = False

    def __init__(self) -> None:
        self.tally = Tally()

    @abstractmethod
    def unpack(self, epoch: int, meeting: Meeting, tensors: Tensors) -> Any:
        """What a source brought; raises `ValueError` with a reason if that does not belong there."""

    @abstractmethod
    async def meet(self, epoch: int, meeting: Meeting, brought: Mapping[str, Any]) -> Mapping[str, Tensors]:
        """Work with what sources brought; returns what each of them is answered, if it is anything."""

    async def finish(self, epoch: int) -> float | None:
        """After the last meeting of an epoch; returns the loop's time after training, if it was not at a meeting."""
        return None

    def add(self, source: str) -> None:
        """Take in a source before an epoch."""

    def remove(self, source: str) -> None:
        """Let go of a source before an epoch."""

    def num_merged(self) -> int:
        """Parameters of the junction."""
        return 0

    @abstractmethod
    def parameters_for(self, source: str) -> Vectors:
        """What a source goes on from that has lost its own, or has none yet; none for its initial ones."""

    @abstractmethod
    def state(self) -> State:
        """All that was learned, as far as the trunk has it."""


class SourceScheme(ABC):
    """A source's side."""

    @abstractmethod
    def load(self, parameters: Vectors) -> None:
        """Go on from these; raises `ConfigError` if they do not fit."""

    @abstractmethod
    async def prepare(self, epoch: int, meeting: Meeting) -> Tensors:
        """What to bring."""

    async def settle(self, epoch: int, meeting: Meeting, answer: Tensors) -> None:
        """Take what comes of it."""

    def forget(self) -> None:
        """What was brought and not answered will not be."""


def mean_of(copies: Sequence[Vectors]) -> Vectors:
    """The mean of parameters; whole numbers are those of the first. None of none."""
    if not copies:
        return {}
    return {
        kind: torch.stack([copy[kind] for copy in copies]).mean(0) if vector.is_floating_point() else vector
        for kind, vector in copies[0].items()
    }
