"""Accuracy by epoch, and accuracy by what is sent."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reproduction import Row
from reproduction.rows import where
from reproduction.style import add_legend, draw_curve, label, new_figure


def plot(rows: Sequence[Row]) -> Figure:
    """The same epochs twice: by their number, and by the megabytes that were sent until then."""
    figure, axes = new_figure(num_columns=2)
    for index, variant in enumerate(dict.fromkeys(row["variant"] for row in rows)):
        own = where(rows, variant=variant)
        name = f"{variant} ({own[0]['num_junction'] / 1e6:.1f} M)"
        draw_curve(axes[0], own, x="epoch", y="accuracy", name=name, index=index)
        sent = [{**row, "megabytes": row["epoch"] * own[-1]["num_bytes"] / 1e6} for row in own]
        draw_curve(axes[1], sent, x="megabytes", y="accuracy", name=name, index=index)
    for panel in axes:
        panel.set_ylim(0, 80)  # with few seeds, intervals go far beyond
    label(axes[0], title="Accuracy by epoch", x="epoch", y="accuracy (%)")
    axes[1].set_xscale("log")
    label(axes[1], title="Accuracy by what was sent", x="MB sent and received", y="accuracy (%)")
    add_legend(figure, axes[0])
    return figure
