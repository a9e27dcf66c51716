"""Time, truancy, loss and accuracy over the deadline, beside what the thesis' text says."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.dab import POLICIES
from reproduction import Row
from reproduction.rows import where
from reproduction.statistics import curve
from reproduction.style import PALETTE, add_legend, draw_curve, label, new_figure

PANELS = (
    ("time", "seconds", "Fig. 3.6", "time of five rounds (s)"),
    ("time", "truancy", "Fig. 3.7", "truancy (%)"),
    ("learning", "accuracy", "Fig. 3.8a, here with a fifth of the data", "accuracy (%)"),
    ("learning", "loss", "Fig. 3.8b, here with a fifth of the data", "loss"),
)
THESIS = {  # by column and policy: deadline and value
    ("seconds", "dab"): [(105, 112)],
    ("seconds", "csa"): [(105, 172)],
    ("truancy", "dab"): [(105, 7)],
    ("truancy", "csa"): [(105, 63)],
    ("accuracy", "dab"): [(105, 91), (150, 95)],
    ("accuracy", "csa"): [(105, 95), (150, 95)],
    ("loss", "dab"): [(105, 1.53), (150, 1.50)],
    ("loss", "csa"): [(105, 1.50), (150, 1.50)],
}


def plot(rows: Sequence[Row]) -> Figure:
    """The times above, what was learned below."""
    figure, axes = new_figure(num_columns=2, num_rows=2)
    for panel, (part, column, title, name) in zip(axes, PANELS, strict=True):
        for index, policy in enumerate(POLICIES):
            _draw(panel, where(rows, part=part, policy=policy), column, policy, index)
        label(panel, title=title, x="deadline of five rounds (s)", y=name)
        panel.set_xticks(sorted({row["deadline"] for row in rows}))
    axes[0].axline((105, 105), slope=1, color="grey", linestyle=":", label="deadline")
    axes[1].axhline(0, color="grey", linestyle=":")
    add_legend(figure, axes[0])
    return figure


def _draw(axes: Axes, rows: Sequence[Row], column: str, policy: str, index: int) -> None:
    name, colour = POLICIES[policy], PALETTE[index]
    draw_curve(axes, rows, x="deadline", y=column, name=name, index=index)
    points = curve(rows, x="deadline", y=column)
    if len(points) == 1:  # too few for a band
        (place, estimate), *_ = points
        axes.errorbar([place], [estimate.mean], [estimate.half_width or 0.0], color=colour, capsize=3)
    told = THESIS.get((column, policy), [])
    if told:
        style = {"marker": "*", "s": 70, "facecolors": "none", "edgecolors": colour, "zorder": 3}
        axes.scatter(*zip(*told, strict=True), label=f"{name} in the thesis", **style)
