"""Maximum and average staleness over the number of learners, for both cycles."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reproduction import Row
from reproduction.rows import where
from reproduction.style import add_legend, draw_curve, label, new_figure

SCHEMES = (
    ("csa", "wide", "exact, wide bounds", "-"),
    ("csa-relaxed", "wide", "relaxed, wide", "-"),
    ("csa-sai", "wide", "SAI, wide", "-"),
    ("csa", "narrow", "exact, narrow bounds", "--"),
    ("csa-relaxed", "narrow", "relaxed, narrow", "--"),
    ("csa-sai", "narrow", "SAI, narrow", "--"),
    ("eta", "wide", "equal shares (ETA)", ":"),
)


def plot(rows: Sequence[Row]) -> Figure:
    """A row per kind of staleness, a column per cycle."""
    figure, axes = new_figure(num_columns=2, num_rows=2)
    panels = [(what, seconds) for what in ("max", "average") for seconds in (7.5, 15.0)]
    for panel, (what, seconds) in zip(axes, panels, strict=True):
        for policy, bounds, name, line in SCHEMES:
            index = ("csa", "csa-relaxed", "csa-sai", "eta").index(policy)
            own = where(rows, policy=policy, bounds=bounds, cycle_seconds=seconds, pixel_bits=8)
            draw_curve(panel, own, x="learners", y=f"{what}_staleness", name=name, index=index, line=line)
        label(panel, title=f"T = {seconds:g} s", x="learners, K", y=f"{what} staleness (local epochs)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    add_legend(figure, axes[0])
    return figure
