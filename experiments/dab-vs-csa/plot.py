"""Loss and accuracy over the global updates, for both clusters, beside the authors' own curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from papers.dab import POLICIES
from reproduction import Row
from reproduction.rows import by_seed, read_rows, where
from reproduction.style import PALETTE, add_legend, draw_curve, label, new_figure

AUTHORS = Path(__file__).with_name("authors.csv")  # from github.com/DuncanMays/DAB_MEL, TwoNN_results
CLUSTERS = {"two": "Pi1 and Jetson", "four": "Pi1, Pi2, Pi3 and Jetson"}


def plot(rows: Sequence[Row]) -> Figure:
    """A row per cluster: mean loss, mean accuracy, and the right answers of each run."""
    figure, axes = new_figure(num_columns=3, num_rows=2)
    for number, (cluster, title) in enumerate(CLUSTERS.items()):
        loss, accuracy, runs = axes[3 * number : 3 * number + 3]
        own, theirs = where(rows, cluster=cluster), where(read_rows(AUTHORS), cluster=cluster)
        for index, (policy, name) in enumerate(POLICIES.items()):
            for panel, column in ((loss, "loss"), (accuracy, "accuracy")):
                draw_curve(panel, where(own, policy=policy), x="update", y=column, name=name, index=index)
                if policy in ("dab", "csa"):
                    curve = where(theirs, policy=policy)
                    draw_curve(panel, curve, x="update", y=column, name=f"{name}, authors' run", index=index, line=":")
            _draw_runs(runs, where(own, policy=policy), PALETTE[index])
        label(loss, title=title, x="global update", y="loss")
        label(accuracy, title=title, x="global update", y="accuracy (%)")
        label(runs, title=f"{title}, each run", x="global update", y="right answers (%)")
    for panel in axes:
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    add_legend(figure, axes[0])
    return figure


def _draw_runs(axes: Axes, rows: Sequence[Row], colour: str) -> None:
    for run in by_seed(rows).values():
        trained = [row for row in run if row["update"] > 0]
        axes.plot([row["update"] for row in trained], [row["right"] for row in trained], color=colour, lw=0.8)
