"""Errors of predictions, what the jobs beside use, and what predicting costs, over the size of their input."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reproduction import Row
from reproduction.rows import where
from reproduction.style import add_legend, draw_curve, label, new_figure

KINDS = {"wordcount": "word count", "sort": "sort"}
PANELS = {
    "error": ("Fig. 9: predicted before the epoch", "error of the predicted time (%)"),
    "error_same_time": ("predicted from usage in the epoch", "error of the predicted time (%)"),
    "slowdown": ("how much slower it trains", "slowdown"),
    "cpu": ("Fig. 10: processor", "used by others (% of all cores)"),
    "disk_mb_per_second": ("Fig. 10: disk", "used by others (MB/s)"),
    "network_mb_per_second": ("Fig. 10: network", "used (MB/s)"),
    "collect_ms": ("Fig. 11: reading the counters", "ms"),
    "redis_ms": ("Fig. 11: telling and asking Redis", "ms"),
}


def plot(rows: Sequence[Row]) -> Figure:
    """A plot per figure and resource."""
    told = [{**row, "error": abs(row["off_forecast"]), "error_same_time": abs(row["off_same_time"])} for row in rows]
    panels = {name: texts for name, texts in PANELS.items() if any(row[name] is not None for row in told)}
    figure, axes = new_figure(4, 2)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    for panel, (name, (title, unit)) in zip(axes, panels.items(), strict=False):
        for index, (kind, shown) in enumerate(KINDS.items()):
            draw_curve(panel, where(told, job=kind), x="size_mb", y=name, name=shown, index=index)
        label(panel, title=title, x="input of the job beside (MB)", y=unit)
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
    add_legend(figure, axes[0])
    return figure
