"""Each trial's mean time of a round, and how busy learners were, by scheme."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.statistics import estimate
from reproduction.style import MARKERS, PALETTE, label, new_figure

SCHEMES = {"med": "MED", "mmtt-uncertain": "MMTT-\nUncertain", "med-held-back": "MED, half\nheld back (ours)"}
COLUMNS = {"seconds": "time of a round (s)", "occupancy": "time that learners are busy (%)"}


def plot(rows: Sequence[Row]) -> Figure:
    """A point for each trial, and the mean with its 95 % interval beside them."""
    figure, axes = new_figure(num_columns=2)
    for panel, (column, name) in zip(axes, COLUMNS.items(), strict=True):
        for index, scheme in enumerate(SCHEMES):
            trials = [where(own, scheme=scheme) for own in by_seed(rows).values()]
            means = [sum(row[column] for row in own) / len(own) for own in trials if own]
            if means:
                colour = PALETTE[index]
                panel.scatter([index - 0.1] * len(means), means, color=colour, marker=MARKERS[index])
                whole = estimate(means)
                panel.errorbar([index + 0.1], [whole.mean], [whole.half_width or 0.0], fmt="_", color=colour, capsize=4)
        panel.set_xticks(range(len(SCHEMES)), list(SCHEMES.values()))
        panel.set_ylim(bottom=0)
        label(panel, title="Four processes, real stressors", x="", y=name)
    return figure
