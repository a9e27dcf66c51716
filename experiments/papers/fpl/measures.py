"""Figures of the rows: when a scheme has learned what it can, and what that takes with any number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reproduction.rows import Row, where

MARGIN = 1.0  # points below the best accuracy of the cut that learns least, which all have to reach


def best(rows: Sequence[Row]) -> Row:
    """Return the epoch with the least validation loss: the paper takes training as complete there."""
    return min(rows, key=lambda row: row["loss"])


class Taken(NamedTuple):
    """What a scheme takes, as straight lines over the number of samples.

    Attributes:
        once: extra cost of the first epoch, as where images are handed over: intercept and cost of each sample.
        each: intercept and cost of each sample in every epoch.
    """

    once: tuple[float, float]
    each: tuple[float, float]

    def epoch(self, num_samples: float) -> float:
        """Return what an epoch takes that is not the first."""
        return self.each[0] + self.each[1] * num_samples

    def total(self, num_samples: float, epochs: float) -> float:
        """Return what so many epochs take."""
        return self.once[0] + self.once[1] * num_samples + epochs * self.epoch(num_samples)


def taken(rows: Sequence[Row], scheme: str, column: str) -> Taken:
    """Fit what a scheme takes to its two short runs."""
    own = where(rows, part="costs", scheme=scheme)
    counts = sorted({row["num_samples"] for row in own})
    first, second = ([where(own, num_samples=count, epoch=epoch)[0][column] for count in counts] for epoch in (1, 2))
    return Taken(_line(counts, [a - b for a, b in zip(first, second, strict=True)]), _line(counts, second))


def _line(counts: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    slope = (values[1] - values[0]) / (counts[1] - counts[0])
    return values[0] - slope * counts[0], slope


def epochs_to_target(rows: Sequence[Row]) -> dict[str, int]:
    """Return the epoch in which each cut reaches an accuracy that all cuts reach."""
    cuts = dict.fromkeys(row["cut"] for row in where(rows, part="learning"))
    curves = {cut: where(rows, part="learning", cut=cut) for cut in cuts}
    target = min(max(row["accuracy"] for row in curve) for curve in curves.values()) - MARGIN
    return {cut: next(row["epoch"] for row in curve if row["accuracy"] >= target) for cut, curve in curves.items()}


def seconds_to_target(rows: Sequence[Row], fleet: str) -> dict[str, float]:
    """Return the seconds that this takes on a fleet, by cut."""
    epochs = epochs_to_target(rows)
    own = where(rows, part="time", fleet=fleet)
    return {row["cut"]: epochs[row["chosen"]] * row["epoch_seconds"] for row in own}


def trained(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the row of what each scheme learned, by scheme."""
    return {row["scheme"]: row for row in where(rows, part="trained")}
