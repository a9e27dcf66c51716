"""Figures of the rows: when a scheme has learned what it can, and what that takes with any number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paceline.reproduction.rows import Row, where


def best(rows: Sequence[Row]) -> Row:
    """The epoch in which the validation loss is least: the paper takes training as complete there."""
    return min(rows, key=lambda row: row["loss"])


class Taken(NamedTuple):
    """What a scheme takes, as straight lines over the number of samples.

    Attributes:
        once: what the first epoch takes besides, as where images are handed over: for none, and for each sample.
        each: the same of every epoch.
    """

    once: tuple[float, float]
    each: tuple[float, float]

    def epoch(self, num_samples: float) -> float:
        """Of an epoch that is not the first."""
        return self.each[0] + self.each[1] * num_samples

    def total(self, num_samples: float, epochs: float) -> float:
        """Of so many epochs."""
        return self.once[0] + self.once[1] * num_samples + epochs * self.epoch(num_samples)


def taken(rows: Sequence[Row], scheme: str, column: str) -> Taken:
    """What a scheme takes, by the two runs that there are of it."""
    own = where(rows, part="costs", scheme=scheme)
    counts = sorted({row["num_samples"] for row in own})
    first, second = ([where(own, num_samples=count, epoch=epoch)[0][column] for count in counts] for epoch in (1, 2))
    return Taken(_line(counts, [a - b for a, b in zip(first, second, strict=True)]), _line(counts, second))


def _line(counts: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    slope = (values[1] - values[0]) / (counts[1] - counts[0])
    return values[0] - slope * counts[0], slope


def trained(rows: Sequence[Row]) -> dict[str, Row]:
    """What each scheme learned, by its name."""
    return {row["scheme"]: row for row in where(rows, part="trained")}
