"""Methods that need no more of the updates than a weighted mean, which is taken as they come."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from paceline.learning.aggregation.base import Aggregated, Aggregation, Collector, Start, Update
from paceline.learning.averaging import RunningAverage, State
from paceline.learning.vectors import Layout, Vectors


@dataclass(frozen=True, kw_only=True)
class MeanAggregation(Aggregation):
    """Base of methods that start from the weighted mean of the updates; none is kept.

    Override `step` for what is done with the mean.
    """

    def step(self, start: Start, mean: State, memory: State) -> Aggregated:
        """Return the next parameters and the next memory; by default the mean.

        Args:
            mean: weighted mean of the updates, in the types of the start. It may be changed.
            memory: what the last round returned; empty in the first one. It may not be changed.
        """
        return Aggregated(mean, memory)

    def collector(self, layout: Layout, buffers: Collection[str] = ()) -> Collector:
        return _MeanCollector(self, layout, buffers)


class _MeanCollector(Collector):
    def __init__(self, method: MeanAggregation, layout: Layout, buffers: Collection[str]) -> None:
        super().__init__(layout, buffers)
        self._method = method
        self._average = RunningAverage()

    def _add(self, update: Update) -> None:
        self._average.add(update.parameters, update.weight)

    def _finish(self, vectors: Vectors, start: Start, memory: State) -> Aggregated:
        means = self._average.result(vectors)
        mean = self._layout.unpack(means)
        aggregated = self._method.step(start, dict(mean), memory)
        is_mean = all(aggregated.parameters.get(name) is tensor for name, tensor in mean.items())
        return aggregated._replace(parameters=means) if is_mean else self._packed(start, aggregated)
