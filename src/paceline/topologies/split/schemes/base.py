"""What all ways to train over several sources have in common: what is sent at a sync point, and what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from paceline.errors import ConfigError
from paceline.learning.averaging import State
from paceline.learning.optimizer_memory import split_off, why_no_memory
from paceline.learning.scores import Scores
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.split.messages import SyncPoint, Tensors

_COPY = "copy/"  # before the name of a source, in what is kept


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

    @abstractmethod
    def memory(self) -> State:
        """Return what the trunk needs to go on, besides its state."""

    @abstractmethod
    def restore(self, state: State, memory: State) -> None:
        """Go on from these; raises `ConfigError` if they do not fit."""


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


class Copies:
    """The trunk's copies of what sources have learned: parameters, and what their optimizers remember.

    Args:
        parameters: those that a source trains; by these names, its optimizer remembers something.
        like: the same as vectors.
        start: parameters that these sources have from the beginning, if those are not initial ones.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], like: Vectors, start: Mapping[str, Vectors]) -> None:
        self._parameters = parameters
        self._validator = UpdateValidator(like)
        self._copies: dict[str, Vectors] = dict(start)

    def why_none(self, tensors: Tensors) -> str | None:
        """Return why what a source sent cannot be a copy; None if it can."""
        vectors, memory = split_off(tensors)
        return self._validator.why_unusable(vectors) or why_no_memory(memory, self._parameters)

    def update(self, received: Mapping[str, Tensors]) -> None:
        """Take copies."""
        self._copies.update(received)

    def remove(self, source: str) -> None:
        """Drop the copy of a source."""
        self._copies.pop(source, None)

    def of(self, source: str) -> Tensors:
        """Return the copy of a source or, for one that has none yet, the mean parameters of all."""
        own = self._copies.get(source)
        return mean_of([split_off(copy)[0] for copy in self._copies.values()]) if own is None else own

    def parameters(self) -> dict[str, Vectors]:
        """Return the parameters, by source."""
        return {source: split_off(copy)[0] for source, copy in self._copies.items()}

    def kept(self) -> State:
        """Return all copies under names of their own."""
        return {
            f"{_COPY}{source}/{name}": tensor for source, copy in self._copies.items() for name, tensor in copy.items()
        }

    def restore(self, kept: State) -> None:
        """Take up what `kept` returned; raises `ConfigError` for what cannot be that."""
        self._copies = {}
        for full, tensor in kept.items():
            if full.startswith(_COPY):
                source, _, name = full.removeprefix(_COPY).partition("/")
                self._copies.setdefault(source, {})[name] = tensor
        for source, copy in self._copies.items():
            if (why := self.why_none(copy)) is not None:
                raise ConfigError(f"the copy of {source} does not fit: {why}")


def mean_of(copies: Sequence[Vectors]) -> Vectors:
    """Average parameters; whole numbers are those of the first. No copies have no mean."""
    if not copies:
        return {}
    return {
        kind: torch.stack([copy[kind] for copy in copies]).mean(0) if vector.is_floating_point() else vector
        for kind, vector in copies[0].items()
    }
