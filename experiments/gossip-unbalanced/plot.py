"""Accuracy over time at two unbalances, and with three aggregation ratios."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.gossip.plots import draw_accuracy
from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.style import add_legend, draw_curve, label, new_figure

SCHEMES = {"gosgd": "GoSGD", "edge-gossip": "EdgeGossip, within classes", "random": "balanced, random samples"}
RATIOS = {"edge-gossip, ratio 5": "ratio 5", "edge-gossip": "ratio 10", "edge-gossip, ratio 20": "ratio 20"}


def plot(rows: Sequence[Row]) -> Figure:
    """Fig. 12's times and accuracies, and Fig. 13."""
    figure, axes = new_figure(num_columns=3)
    for index, (scheme, name) in enumerate(SCHEMES.items()):
        own = where(rows, part="time", scheme=scheme)
        draw_curve(axes[0], own, x="unbalance", y="run_seconds", name=name, index=index)
    axes[0].set_ylim(bottom=0)
    label(axes[0], title="Fig. 12: time", x="fast over slow platforms' speed", y="time of all epochs (s)")
    learned = where(rows, part="learning")
    for index, scheme in enumerate(SCHEMES):
        own = where(learned, scheme=scheme)
        at_five = own if scheme == "gosgd" else where(own, unbalance=5)
        draw_curve(axes[1], at_five, x="epoch", y="accuracy", name=SCHEMES[scheme], index=index)
    label(axes[1], title="Fig. 12: accuracy, unbalance 5", x="epochs", y="accuracy (%)")
    for index, (scheme, name) in enumerate(RATIOS.items()):
        own = where(learned, scheme=scheme, unbalance=3)
        draw_accuracy(axes[2], list(by_seed(own).values()), name=name, index=index)
    for panel in axes[1:]:
        panel.set_ylim(bottom=min(85.0, max(row["accuracy"] for row in learned) - 10))  # where they differ
    axes[2].legend(loc="lower right")
    label(axes[2], title="Fig. 13: aggregation ratios", x="time (s)", y="accuracy (%)")
    add_legend(figure, axes[0])
    return figure
