"""Time and worth of aggregated points, and what using them takes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduction import Row
from reproduction.rows import where
from reproduction.statistics import estimate
from reproduction.style import PALETTE, label, new_figure

STEPS = {"reduce": "reduction", "divide": "division", "average": "means"}
CHOSEN = ("svd+k-means", "incremental-svd+lsh", "hash+k-means")
CASES = {"lenet-5": "LeNet-5, MNIST", "alexnet": "AlexNet, CIFAR-10"}


def plot(rows: Sequence[Row]) -> Figure:
    """Above, Fig. 3; in the middle, Fig. 7; below, Fig. 8."""
    figure, axes = new_figure(2, 3)
    compared = where(rows, what="generation", case="alexnet", ratio=5)
    _stack(axes[0], compared, [("pair", pair) for pair in dict.fromkeys(row["pair"] for row in compared)])
    label(axes[0], title="Fig. 3a: CIFAR-10, ratio 5", x="CPU seconds", y="")
    axes[0].legend(loc="upper right")
    _accuracies(axes[1], where(rows, what="accuracy"))
    for panel, (case, title) in zip(axes[2:4], CASES.items(), strict=True):
        own = [row for row in where(rows, what="generation", case=case) if row["pair"] in CHOSEN]
        named = [{**row, "bar": f"{row['pair']}, {row['ratio']}"} for row in own]
        _stack(panel, named, [("bar", bar) for bar in dict.fromkeys(row["bar"] for row in named)])
        label(panel, title=f"Fig. 7: {title}", x="CPU seconds", y="")
    for panel, (case, title) in zip(axes[4:], CASES.items(), strict=True):
        _shares(panel, where(rows, what="processing", case=case))
        label(panel, title=f"Fig. 8: {title}", x="samples per point", y="points' share of an epoch (%)")
    return figure


def _stack(axes: Axes, rows: Sequence[Row], bars: Sequence[tuple[str, str]]) -> None:
    """A bar for each value of a column, of the mean seconds of each step."""
    starts = [0.0] * len(bars)
    for index, (step, name) in enumerate(STEPS.items()):
        means = [estimate(row[step] for row in rows if row[column] == value).mean for column, value in bars]
        axes.barh(range(len(bars)), means, left=starts, color=PALETTE[index], label=name)
        starts = [start + mean for start, mean in zip(starts, means, strict=True)]
    _name_bars(axes, [value for _, value in bars])


def _accuracies(axes: Axes, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(row["pair"] for row in rows))
    found = [estimate(row["accuracy"] for row in where(rows, pair=name)) for name in names]
    errors = [one.half_width or 0.0 for one in found]
    axes.barh(range(len(names)), [one.mean for one in found], xerr=errors, color=PALETTE[0], ecolor="grey")
    _name_bars(axes, names)
    label(axes, title="Fig. 3b: trained on points alone", x="accuracy (%)", y="")


def _shares(axes: Axes, rows: Sequence[Row]) -> None:
    ratios = sorted({row["ratio"] for row in rows})
    found = [
        estimate(100 * row["losses"] / (row["losses"] + row["epoch"]) for row in where(rows, ratio=ratio))
        for ratio in ratios
    ]
    errors = [one.half_width or 0.0 for one in found]
    axes.bar(
        [str(ratio) for ratio in ratios], [one.mean for one in found], yerr=errors, color=PALETTE[1], ecolor="grey"
    )


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
