"""Accuracy over time, what schemes gain and lose, and the speed-up of larger deployments."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.gossip.measures import BASELINE, accuracy_lost, speed_up
from papers.gossip.plots import draw_accuracy
from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.statistics import estimate
from reproduction.style import MARKERS, PALETTE, add_legend, draw_curve, label, new_figure

CURVES = {
    BASELINE: ("GoSGD", "-"),
    "push-sum": ("GoSGD, asynchronous", ":"),
    "edge-gossip": ("EdgeGossip, within classes", "--"),
    "random": ("balanced, random samples", "-."),
    "ours": ("the same, 78 %, twice the rate (ours)", "-"),
    "shuffled": ("EdgeGossip, over all classes", ":"),
    "to the letter": ("EdgeGossip, to the letter", "--"),
}


def plot(rows: Sequence[Row]) -> Figure:
    """Fig. 5, with the time that schemes gain and the accuracy that they lose beside it; and Fig. 6."""
    figure, axes = new_figure(num_columns=3)
    learned = where(rows, part="learning")
    for index, (scheme, (name, line)) in enumerate(CURVES.items()):
        own = by_seed(where(learned, scheme=scheme))
        draw_accuracy(axes[0], list(own.values()), name=name, index=index, line=line)
        _draw_trade(axes[1], by_seed(where(learned, scheme=BASELINE)), own, index)
    axes[0].set_ylim(bottom=min(70.0, max(row["accuracy"] for row in learned) - 20))  # where schemes differ
    label(axes[0], title="Fig. 5: LeNet-5, four platforms", x="time (s)", y="accuracy (%)")
    axes[1].axvline(3.5, color="grey", linestyle=":")
    axes[1].axhline(0.5, color="grey", linestyle=":")
    axes[1].set_yscale("symlog", linthresh=1.0)
    label(axes[1], title="Gain and loss (dotted: our goal)", x="times shorter than GoSGD", y="accuracy lost (points)")
    for index, workload in enumerate(dict.fromkeys(row["workload"] for row in where(rows, part="scale"))):
        draw_curve(axes[2], _scaled(rows, workload), x="platforms", y="speed_up", name=workload, index=index)
    axes[2].set_ylim(bottom=0)
    axes[2].legend(loc="lower right")
    label(axes[2], title="Fig. 6: EdgeGossip, larger deployments", x="platforms", y="times shorter than GoSGD")
    add_legend(figure, axes[0])
    return figure


def _draw_trade(panel: Axes, baselines: dict[int, list[Row]], runs: dict[int, list[Row]], index: int) -> None:
    if not runs:
        return
    gained = estimate(speed_up(baselines[seed], own) for seed, own in runs.items())
    lost = estimate(accuracy_lost(baselines[seed], own) for seed, own in runs.items())
    panel.errorbar(
        gained.mean, lost.mean, lost.half_width, fmt=MARKERS[index], color=PALETTE[index], capsize=3, markersize=6
    )


def _scaled(rows: Sequence[Row], workload: str) -> list[Row]:
    own = where(rows, part="scale", workload=workload)
    baselines = {(row["seed"], row["platforms"]): row for row in where(own, scheme=BASELINE)}
    return [
        {
            "seed": row["seed"],
            "platforms": row["platforms"],
            "speed_up": speed_up([baselines[row["seed"], row["platforms"]]], [row]),
        }
        for row in where(own, scheme="edge-gossip")
    ]
