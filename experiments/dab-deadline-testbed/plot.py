"""How long each round took against its deadline, and how much was trained in it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from papers.dab import POLICIES
from reproduction import Row
from reproduction.rows import where
from reproduction.style import add_legend, draw_curve, label, new_figure


def plot(rows: Sequence[Row]) -> Figure:
    """Times on the left, samples on the right."""
    figure, axes = new_figure(num_columns=2)
    relative = [{**row, "ratio": 100 * row["seconds"] / row["deadline"]} for row in rows]
    for panel, column in zip(axes, ("ratio", "samples"), strict=True):
        for index, (policy, name) in enumerate(POLICIES.items()):
            draw_curve(panel, where(relative, policy=policy), x="round", y=column, name=name, index=index)
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].axhline(100, color="grey", linestyle=":", label="deadline")
    label(axes[0], title="Four emulated Jetsons", x="round", y="time of the round (% of the deadline)")
    label(axes[1], title="Four emulated Jetsons", x="round", y="samples that count")
    add_legend(figure, axes[0])
    return figure
