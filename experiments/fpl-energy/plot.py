"""Energy of all schemes beside the paper's table."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.fpl.energy import TABLE, kwh
from papers.fpl.measures import taken, trained
from papers.fpl.plots import draw_bars
from papers.fpl.setting import SPLIT
from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.style import label, new_figure


def plot(rows: Sequence[Row]) -> Figure:
    """Relative to split learning, with the paper's beside; and an epoch of it, as measured and as modelled."""
    figure, axes = new_figure(num_columns=2)
    seeds = by_seed(rows)
    schemes = list(dict.fromkeys(row["scheme"] for row in where(rows, part="trained")))

    def epoch(own: Sequence[Row], scheme: str, column: str = "process_seconds") -> float:
        return taken(own, scheme, column).epoch(trained(own)[scheme]["num_samples"])

    def whole(own: Sequence[Row], scheme: str) -> float:
        return epoch(own, scheme) * trained(own)[scheme]["epoch"]

    ratios = {s: [whole(own, s) / whole(own, SPLIT) for own in seeds.values()] for s in schemes}
    told = {s: [TABLE[s].grams / TABLE[SPLIT].grams] for s in schemes if s in TABLE}
    draw_bars(axes[0], told, place=-0.2, width=0.4, hatch="////", name="paper")
    draw_bars(axes[0], ratios, place=0.2, width=0.4, name="here")
    axes[0].legend(fontsize=7)
    label(axes[0], title="Table I: energy over SL's", x="", y="times SL's")
    for place, column, hatch, name in (
        (-0.2, "cpu_seconds", "xx", "modelled: products only"),
        (0.2, "process_seconds", "", "measured: with the optimizer"),
    ):
        milliwatt_hours = {s: [1e6 * kwh(epoch(own, s, column)) for own in seeds.values()] for s in schemes}
        draw_bars(axes[1], milliwatt_hours, place=place, width=0.4, hatch=hatch, name=name)
    axes[1].legend(fontsize=7)
    label(axes[1], title="Energy of an epoch", x="", y="mWh")
    return figure
