"""How far peers are apart, and how good their average is: measured where all of them run in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from paceline.events import Emit
from paceline.learning.averaging import RunningAverage
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.events import ConsensusMeasured

OnEpoch: TypeAlias = Callable[[str, int, Vectors], None]
"""Receives the name, the epoch and the model of a peer that trained another epoch."""


class Consensus:
    """Compares the models of all peers whenever each has, on average, trained another epoch.

    Args:
        evaluate: returns loss and accuracy of a model; None and None to leave that out.
    """

    def __init__(
        self,
        emit: Emit,
        now: Callable[[], float],
        evaluate: Callable[[Vectors], tuple[float | None, float | None]],
    ) -> None:
        self._emit = emit
        self._now = now
        self._evaluate = evaluate
        self._awaited: set[str] = set()
        self._newest: dict[str, Vectors] = {}
        self._epochs: dict[str, int] = {}
        self._num_added = 0

    def expect(self, name: str) -> None:
        """Measure nothing before this peer has trained an epoch, or is gone."""
        self._awaited.add(name)

    def add(self, name: str, epoch: int, parameters: Vectors) -> None:
        """Take in the model of a peer after an epoch."""
        self._newest[name], self._epochs[name] = parameters, epoch
        self._awaited.discard(name)
        self._num_added += 1
        if not self._awaited and self._num_added >= len(self._newest):
            self._num_added = 0
            self._measure(round(sum(self._epochs.values()) / len(self._epochs)))

    def forget(self, name: str) -> None:
        """Leave a peer out that is gone."""
        self._newest.pop(name, None)
        self._epochs.pop(name, None)
        self._awaited.discard(name)

    def _measure(self, epoch: int) -> None:
        average = RunningAverage()
        for parameters in self._newest.values():
            average.add(parameters, 1.0)
        mean = average.result(next(iter(self._newest.values())))
        squares = [_squared_distance(parameters, mean) for parameters in self._newest.values()]
        length = _squared_distance(mean, {kind: torch.zeros_like(vector) for kind, vector in mean.items()})
        loss, accuracy = self._evaluate(mean)
        self._emit(
            ConsensusMeasured(
                at=self._now(),
                epoch=epoch,
                num_learners=len(squares),
                distance=(sum(squares) / len(squares) / max(length, 1e-30)) ** 0.5,
                loss=loss,
                accuracy=accuracy,
            )
        )


def _squared_distance(one: Vectors, other: Vectors) -> float:
    return sum(float((one[kind] - other[kind]).square().sum()) for kind in one if one[kind].is_floating_point())
