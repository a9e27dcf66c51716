"""Accuracy over time, where runs of several seeds do not measure at the same moments."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes

from reproduction.rows import Row
from reproduction.style import MARKERS, PALETTE


def draw_accuracy(axes: Axes, runs: Sequence[Sequence[Row]], *, name: str, index: int, line: str = "-") -> None:
    """Draw the mean of runs, measurement by measurement: of their times, and of their accuracies.

    Args:
        runs: the rows of each; a curve goes as far as the shortest.
        name: for the legend.
    """
    steps = list(zip(*runs, strict=False))
    colour = PALETTE[index % len(PALETTE)]
    axes.plot(
        [statistics.fmean(row["seconds"] for row in step) for step in steps],
        [statistics.fmean(row["accuracy"] for row in step) for step in steps],
        line,
        color=colour,
        marker=MARKERS[index % len(MARKERS)],
        markevery=5,
        label=name,
    )
