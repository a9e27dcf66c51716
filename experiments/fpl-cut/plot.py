"""Seconds to an accuracy on each fleet, by cut, beside what each cut learns."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.fpl.measures import seconds_to_target
from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.statistics import estimate
from reproduction.style import PALETTE, add_legend, draw_curve, label, new_figure


def plot(rows: Sequence[Row]) -> Figure:
    """What each cut learns by epoch; and bars of the time that it takes, on a logarithmic scale."""
    figure, axes = new_figure(num_columns=2)
    for index, cut in enumerate(dict.fromkeys(row["cut"] for row in where(rows, part="learning"))):
        own = where(rows, part="learning", cut=cut)
        draw_curve(axes[0], own, x="epoch", y="accuracy", name=f"before {cut}", index=index)
    axes[0].set_ylim(0, 80)  # with few seeds, intervals go far beyond
    label(axes[0], title="What each cut learns", x="epoch", y="accuracy (%)")
    axes[0].legend(loc="lower right")
    names = list(dict.fromkeys(row["fleet"] for row in where(rows, part="time")))
    cuts = list(dict.fromkeys(row["cut"] for row in where(rows, part="time")))
    for index, cut in enumerate(cuts):
        found = [estimate(seconds_to_target(own, fleet)[cut] for own in by_seed(rows).values()) for fleet in names]
        places = [number + 0.2 * (index - 1.5) for number in range(len(names))]
        axes[1].bar(
            places,
            [one.mean for one in found],
            0.18,
            yerr=[one.half_width or 0.0 for one in found],
            color=PALETTE[index],
            capsize=2,
            label=cut if cut == "auto" else f"before {cut}",
        )
    axes[1].set_yscale("log")
    axes[1].set_ylim(bottom=5)
    axes[1].set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names], fontsize=7)
    label(axes[1], title="Time to an accuracy that all reach", x="", y="seconds")
    add_legend(figure, axes[1])
    return figure
