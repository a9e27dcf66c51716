"""How figures look: one style, readable without colour, the same file from the same rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.extras import extra
from reproduction.rows import Row
from reproduction.statistics import curve

with extra("experiments"):
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which people who see colours differently can tell apart, too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_WIDTH_INCHES, _HEIGHT_INCHES = 4.2, 3.2

_SETTINGS: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.markersize": 4.0,
    "svg.fonttype": "none",  # text stays text: smaller, and can be searched
    "svg.hashsalt": "paceline",  # else the names of elements differ from run to run
}


@contextlib.contextmanager
def applied() -> Iterator[None]:
    """While this lasts, figures are made in the project's style, whatever the user's own settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        parameters: Any = matplotlib.rcParams  # its type knows every name, and none of a variable's
        parameters.update(_SETTINGS)
        yield


def new_figure(num_columns: int = 1, num_rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of so many plots, and their axes, row by row."""
    figure = Figure(figsize=(num_columns * _WIDTH_INCHES, num_rows * _HEIGHT_INCHES), layout="constrained")
    axes = figure.subplots(num_rows, num_columns, squeeze=False)
    return figure, list(axes.flat)


def label(axes: Axes, *, title: str = "", x: str, y: str) -> None:
    """Say what the axes show, with units, like "deadline (s)"."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def draw_curve(axes: Axes, rows: Sequence[Row], *, x: str, y: str, name: str, index: int = 0, line: str = "-") -> None:
    """Draw column `y` over column `x`: the mean over seeds, and its 95 % interval as a band.

    Args:
        name: for the legend.
        index: of its colour and marker; the same scheme should have the same in every plot.
        line: how it is drawn, as matplotlib says it: ``-``, ``--``, ``:``.
    """
    points = curve(rows, x=x, y=y)
    places = [place for place, _ in points]
    colour, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
    axes.plot(places, [e.mean for _, e in points], line, marker=marker, color=colour, label=name)
    axes.fill_between(places, [e.low for _, e in points], [e.high for _, e in points], color=colour, alpha=0.15, lw=0)


def add_legend(figure: Figure, axes: Axes) -> None:
    """One legend for all plots of a figure, below them, of what is drawn in `axes`."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, without the date."""
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
