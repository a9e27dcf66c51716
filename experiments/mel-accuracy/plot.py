"""Accuracy after each cycle, a plot per number of learners and bounds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reproduction import Row
from reproduction.rows import by_seed, where
from reproduction.style import add_legend, draw_curve, label, new_figure

SCHEMES = (
    ("csa", "asynchronous, optimised (csa)", "-"),
    ("sync", "synchronous", "--"),
    ("eta", "asynchronous, equal (ETA)", ":"),
)


def plot(rows: Sequence[Row]) -> Figure:
    """Runs end at the last target; a curve goes as far as the shortest of its runs."""
    cases = list(dict.fromkeys((row["bounds"], row["learners"]) for row in rows))
    num_columns = min(2, len(cases))
    figure, axes = new_figure(num_columns, -(-len(cases) // num_columns))
    for panel, (bounds, learners) in zip(axes, cases, strict=False):
        if panel is not axes[0]:
            panel.sharex(axes[0])
            panel.sharey(axes[0])
        for percent in (95, 97):
            panel.axhline(percent, color="grey", lw=0.8, zorder=0)
        for index, (scheme, name, line) in enumerate(SCHEMES):
            if own := where(rows, scheme=scheme, bounds=bounds, learners=learners):
                draw_curve(panel, _common(own), x="cycle", y="accuracy", name=name, index=index, line=line)
        title = f"K = {learners}" if bounds == "wide" else f"K = {learners}, {bounds} bounds"
        label(panel, title=title, x="global cycles", y="accuracy (%)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    add_legend(figure, axes[0])
    return figure


def _common(rows: Sequence[Row]) -> list[Row]:
    """The rows of the cycles that all seeds have."""
    last = min(max(row["cycle"] for row in own) for own in by_seed(rows).values())
    return [row for row in rows if row["cycle"] <= last]
