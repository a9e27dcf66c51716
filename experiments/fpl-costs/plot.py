"""Bars of all schemes: accuracy, parameters, time and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.fpl.measures import taken, trained
from papers.fpl.plots import draw_bars
from papers.fpl.setting import PAPER_SAMPLES
from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.style import label, new_figure


def plot(rows: Sequence[Row]) -> Figure:
    """Fig. 6 a to d; time and bytes with the samples that were trained, and with as many as the paper has."""
    figure, axes = new_figure(num_columns=3, num_rows=2)
    seeds = by_seed(rows)
    schemes = list(dict.fromkeys(row["scheme"] for row in where(rows, part="trained")))
    size = where(rows, part="trained")[0]["num_samples"]

    def column(name: str, scale: float = 1.0) -> dict[str, list[float]]:
        return {s: [trained(own)[s][name] / scale for own in seeds.values()] for s in schemes}

    def total(name: str, num_samples: int, scale: float) -> dict[str, list[float]]:
        return {
            s: [taken(own, s, name).total(num_samples, trained(own)[s]["epoch"]) / scale for own in seeds.values()]
            for s in schemes
        }

    draw_bars(axes[0], column("accuracy"), place=-0.2, width=0.4, name="of a model, where its loss is least")
    draw_bars(
        axes[0], column("joint_accuracy"), place=0.2, width=0.4, hatch="////", name="of five views together, in the end"
    )
    axes[0].set_ylim(0, 100)
    axes[0].legend(loc="upper right", fontsize=7)
    label(axes[0], title="a: accuracy", x="", y="accuracy (%)")
    draw_bars(axes[3], column("num_parameters", 1e6))
    label(axes[3], title="b: parameters of all nodes", x="", y="millions")
    for place, (num_samples, unit, scale) in enumerate(((size, "minutes", 60), (PAPER_SAMPLES, "hours", 3600)), 1):
        _draw_time(axes[place], total("seconds", num_samples, scale), total("compute_seconds", num_samples, scale))
        label(axes[place], title=f"c: time, {num_samples:,} images", x="", y=unit)
        gigabytes = total("num_bytes", num_samples, 1e9)
        draw_bars(axes[place + 3], gigabytes)
        axes[place + 3].set_yscale("log")
        axes[place + 3].set_ylim(bottom=0.3 * min(map(min, gigabytes.values())))
        label(axes[place + 3], title=f"d: bytes sent, {num_samples:,} images", x="", y="GB")
    return figure


def _draw_time(axes: Axes, seconds: dict[str, list[float]], compute: dict[str, list[float]]) -> None:
    """All of it, and in front of that the part in which somebody works."""
    draw_bars(axes, seconds, hatch="xx", name="network")
    draw_bars(axes, {scheme: [sum(own) / len(own)] for scheme, own in compute.items()}, name="processing")
    axes.legend(fontsize=7, frameon=True)
