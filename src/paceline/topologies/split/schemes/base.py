"""What all ways to train over several sources have in common: what is sent at a sync point, and what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from paceline.learning.averaging import State
from paceline.learning.scores import Scores
from paceline.learning.vectors import Vectors
from paceline.topologies.split.messages import SyncPoint, Tensors


@dataclass
class EpochTotals:
    """Sums over an epoch.

    Attributes:
        train_loss: sum over all samples; None where it is not known.
        tested: what was achieved on test samples, and on how many.
    """

    num_steps: int = 0
    num_samples: int = 0
    train_loss: float | None = None
    tested: list[tuple[Scores, int]] = field(default_factory=list)

    def add_step(self, loss: float, num_samples: int) -> None:
        """Add a minibatch that was trained, with this mean loss."""
        self.num_steps += 1
        self.num_samples += num_samples
        self.train_loss = (self.train_loss or 0.0) + loss * num_samples

    @property
    def scores(self) -> Scores | None:
        """The mean over all test samples; None without any."""
        num_samples = sum(count for _, count in self.tested)
        if not num_samples:
            return None

        def mean(values: Iterable[float]) -> float:
            return sum(value * count for value, (_, count) in zip(values, self.tested, strict=True)) / num_samples

        names = self.tested[0][0].metrics
        metrics = {name: mean(scores.metrics[name] for scores, _ in self.tested) for name in names}
        return Scores(mean(scores.loss for scores, _ in self.tested), metrics)


class TrunkScheme(ABC):
    """The trunk's part in a scheme: to decode what sources send, to train, and to reply.

    Attributes:
        takes_newcomers: whether sources may come after training has begun.
        totals: sums over the epoch that is on.
    """

    takes_newcomers = False

    def __init__(self) -> None:
        self.totals = EpochTotals()

    @abstractmethod
    def unpack(self, epoch: int, point: SyncPoint, tensors: Tensors) -> Any:
        """Decode what a source sent; raises `ValueError` with a reason if that does not belong there."""

    @abstractmethod
    async def process(self, epoch: int, point: SyncPoint, received: Mapping[str, Any]) -> Mapping[str, Tensors]:
        """Work with what sources sent; returns the reply to each of them, if there is any."""

    async def finish(self, epoch: int) -> float | None:
        """Do what is left after the last sync point; returns the loop's time after training, if that was part of it."""
        return None

    def add(self, source: str) -> None:
        """Take in a source before an epoch."""

    def remove(self, source: str) -> None:
        """Let go of a source before an epoch."""

    def num_merged(self) -> int:
        """Count the parameters of the junction."""
        return 0

    @abstractmethod
    def parameters_for(self, source: str) -> Vectors:
        """Return parameters for a source that has lost its own, or has none yet; none for its initial ones."""

    @abstractmethod
    def state(self) -> State:
        """Return all that was learned, as far as the trunk has it."""


class SourceScheme(ABC):
    """A source's part in a scheme: to compute what it sends, and to learn from the reply."""

    @abstractmethod
    def load(self, parameters: Vectors) -> None:
        """Go on from these; raises `ConfigError` if they do not fit."""

    @abstractmethod
    async def compute(self, epoch: int, point: SyncPoint) -> Tensors:
        """Compute what to send."""

    async def apply(self, epoch: int, point: SyncPoint, reply: Tensors) -> None:
        """Learn from the reply; raises `ValueError` with a reason if it does not belong there."""

    def forget(self) -> None:
        """Drop what waits for replies that will not come."""


def mean_of(copies: Sequence[Vectors]) -> Vectors:
    """Average parameters; whole numbers are those of the first. No copies have no mean."""
    if not copies:
        return {}
    return {
        kind: torch.stack([copy[kind] for copy in copies]).mean(0) if vector.is_floating_point() else vector
        for kind, vector in copies[0].items()
    }
