"""The error of predicted training times over the size of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.style import add_legend, draw_curve, label, new_figure

WAYS = {"sb": "ours", "plain sb": "n / T, as in the thesis", "flops": "FLOPS", "same run before": "same run before"}
DEVICES = ("one core", "all cores", "jetson", "pi1", "pi2", "pi3")


def plot(rows: Sequence[Row]) -> Figure:
    """Left, the mean over devices by way to predict; right, ours by device."""
    figure, (left, right) = new_figure(2)
    others = [row for row in rows if row["device"] != DEVICES[0]]
    for index, (way, name) in enumerate(WAYS.items()):
        draw_curve(left, _means(where(others, way=way)), x="size", y="error", name=name, index=index)
    label(left, title="mean over devices", x="benchmark size (shards)", y="error of the predicted time (%)")
    for index, device in enumerate(DEVICES):
        own = _means(where(rows, way="sb", device=device))
        if own:
            draw_curve(right, own, x="size", y="error", name=device, index=index)
    label(right, title="ours, by device", x="benchmark size (shards)", y="error (%)")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted({row["size"] for row in rows}))
    right.legend(ncols=2, loc="upper right")
    add_legend(figure, left)
    return figure


def _means(rows: Sequence[Row]) -> list[Row]:
    """The mean error of each seed and size: devices of a seed are not independent."""
    found = []
    for own in by_seed(rows).values():
        for size in sorted({row["size"] for row in own}):
            errors = [abs(row["off"]) for row in where(own, size=size)]
            found.append({"size": size, "error": sum(errors) / len(errors)})
    return found
