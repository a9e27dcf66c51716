"""The error of predicted download times over the size of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from reproduction import Row
from reproduction.rows import where
from reproduction.style import add_legend, draw_curve, label, new_figure

LINKS = {"wired": "wired, steady", "wired, shared": "wired, shared with others", "wifi": "WiFi-like"}
WAYS = {"fitted": "latency and bandwidth fitted (ours)", "plain": "as in the thesis, n / T"}


def plot(rows: Sequence[Row]) -> Figure:
    """A plot per link."""
    links = [link for link in LINKS if where(rows, link=link)]
    figure, axes = new_figure(len(links))
    for panel, link in zip(axes, links, strict=True):
        for index, (way, name) in enumerate(WAYS.items()):
            own = [{**row, "error": abs(row["off"])} for row in where(rows, link=link, way=way)]
            draw_curve(panel, own, x="size", y="error", name=name, index=index)
        label(panel, title=LINKS[link], x="benchmark size (shards)", y="error of the predicted time (%)")
        panel.set_ylim(bottom=0)
        panel.set_xticks(sorted({row["size"] for row in rows}))
    add_legend(figure, axes[0])
    return figure
