"""FedNova: changes normalised by local steps, so that whoever trains longer does not pull the model its way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from paceline.learning.aggregation.base import Aggregated, Aggregation, Collector, Start, Update
from paceline.learning.averaging import RunningAverage, State, widened
from paceline.learning.vectors import Layout, Vectors


@dataclass(frozen=True, kw_only=True)
class FedNovaAggregation(Aggregation):
    """The weighted mean of changes per local step, times the mean number of steps (Wang et al., 2020).

    With weights p that sum to 1, steps τ and changes Δ it is start + (Σ p τ) Σ p Δ / τ. This is FedNova for learners
    that train with SGD without momentum. Buffers are averaged.
    """

    weight: Literal["samples", "work", "equal"] = "samples"

    def collector(self, layout: Layout, buffers: Collection[str] = ()) -> Collector:
        return _NormalisedMean(layout, buffers)


class _NormalisedMean(Collector):
    """Σ p Δ / τ is a mean of changes with weights p / τ, times the sum of these weights: it needs no update kept."""

    def __init__(self, layout: Layout, buffers: Collection[str]) -> None:
        super().__init__(layout, buffers)
        self._average = RunningAverage()
        self._weight = 0.0
        self._weighted_steps = 0.0

    def _add(self, update: Update) -> None:
        self._average.add(update.parameters, update.weight / update.num_steps)
        self._weight += update.weight
        self._weighted_steps += update.weight * update.num_steps

    def _finish(self, vectors: Vectors, start: Start, memory: State) -> Aggregated:
        parameters = self._layout.unpack(self._average.result(vectors))
        scale = self._weighted_steps * self._average.weight / self._weight**2
        for name in start.trained():
            before, mean = widened(start.parameters[name]), widened(parameters[name])
            parameters[name] = (before + scale * (mean - before)).to(parameters[name].dtype)
        return self._packed(start, Aggregated(parameters, memory))
