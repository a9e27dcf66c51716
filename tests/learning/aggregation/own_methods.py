"""Aggregation methods of a user's own."""

from dataclasses import dataclass

from paceline.checks import PositiveRatio
from paceline.learning.aggregation import Aggregated, MeanAggregation


@dataclass(frozen=True, kw_only=True)
class PartOfTheWay(MeanAggregation):
    """Goes a part of the way to the mean."""

    part: PositiveRatio = 0.5

    def step(self, start, mean, memory):
        return Aggregated({name: start.parameters[name].lerp(mean[name], self.part) for name in mean}, memory)


@dataclass(frozen=True, kw_only=True)
class Broken(MeanAggregation):
    """Forgets a parameter, or gives what is no number."""

    is_nan: bool = False

    def step(self, start, mean, memory):
        name = next(iter(mean))
        if self.is_nan:
            return Aggregated({**mean, name: mean[name] * float("nan")}, memory)
        return Aggregated({other: tensor for other, tensor in mean.items() if other != name}, memory)


class NotOne:
    """No aggregation at all."""
