"""Validation loss by epoch, and by step of the model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from papers.fpl.measures import best
from papers.fpl.plots import COLOURS
from papers.fpl.setting import NAMES, NUM_SOURCES
from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.style import add_legend, label, new_figure

_LINES = ("-", "--", "-.", "--", "-", "-", ":")


def plot(rows: Sequence[Row]) -> Figure:
    """Fig. 5 on the left; on the right the same over the updates that each model has had."""
    figure, axes = new_figure(num_columns=2)
    for (scheme, colour), line in zip(COLOURS.items(), _LINES, strict=True):
        for number, own in enumerate(by_seed(where(rows, scheme=scheme)).values()):
            name = NAMES[scheme] if not number else None
            _draw(axes[0], own, [row["epoch"] for row in own], colour, line, name)
            # Where each source has a model, all of them make a step at once.
            models = NUM_SOURCES if scheme.startswith(("gfl", "fedavg")) else 1
            steps = [total / models for total in itertools.accumulate(row["steps"] for row in own)]
            _draw(axes[1], own, steps, colour, line, name)
    for panel in axes:
        panel.set_ylim(top=min(4.2, 1.05 * max(row["loss"] for row in rows)))
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[1].set_xscale("log", base=2)
    axes[1].xaxis.set_major_formatter(ScalarFormatter())
    label(axes[0], title="Fig. 5: by epoch", x="epoch", y="validation loss")
    label(axes[1], title="The same by updates of a model", x="updates", y="validation loss")
    add_legend(figure, axes[0])
    return figure


def _draw(axes: Axes, rows: Sequence[Row], places: Sequence[float], colour: str, line: str, name: str | None) -> None:
    """The curve of one seed, with a marker where it is least."""
    axes.plot(places, [row["loss"] for row in rows], line, color=colour, lw=1.1, alpha=0.8, label=name)
    least = best(rows)
    axes.plot(places[list(rows).index(least)], least["loss"], "o", color=colour)
