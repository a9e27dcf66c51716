"""Figures of the rows: how much faster a scheme is than GoSGD, what accuracy that costs, and when it gets there."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from reproduction.rows import Row

BASELINE = "gosgd"
LAST = 4  # measurements at the end, whose mean is the accuracy of a run: single ones vary by a few tenths
_SMOOTHED = 3  # successive ones, whose mean has to stay at a target
MARGIN = 0.5  # points below the baseline's accuracy, that count as reaching it


def speed_up(baseline: Sequence[Row], rows: Sequence[Row]) -> float:
    """Return how many times shorter a run is, with as many epochs."""
    return float(baseline[0]["run_seconds"] / rows[0]["run_seconds"])


def final_accuracy(rows: Sequence[Row]) -> float:
    """Return the mean accuracy of a run's last measurements, in percent."""
    return statistics.fmean(row["accuracy"] for row in rows[-LAST:])


def accuracy_lost(baseline: Sequence[Row], rows: Sequence[Row]) -> float:
    """Return by how many points a run ends below the baseline."""
    return final_accuracy(baseline) - final_accuracy(rows)


def reached_seconds(rows: Sequence[Row], target: float) -> float | None:
    """Return when a run has reached an accuracy for good: the mean of three measurements stays there; None if never.

    A mean counts from the time of its last measurement.
    """
    reached = None
    for first in range(len(rows) - _SMOOTHED + 1):
        window = rows[first : first + _SMOOTHED]
        if statistics.fmean(row["accuracy"] for row in window) < target:
            reached = None
        elif reached is None:
            reached = float(window[-1]["seconds"])
    return reached


def speed_up_to_accuracy(baseline: Sequence[Row], rows: Sequence[Row]) -> float | None:
    """Return how many times sooner a run reaches the baseline's final accuracy, less the margin; None if never."""
    target = final_accuracy(baseline) - MARGIN
    earliest, own = reached_seconds(baseline, target), reached_seconds(rows, target)
    return None if earliest is None or own is None else earliest / own
