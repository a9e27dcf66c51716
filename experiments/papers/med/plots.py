"""The five measures of the thesis, and how much of the gap our variant closes, as small multiples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.med.measures import GOAL, Averages, shares_closed
from reproduction.rows import Row, by_seed, where
from reproduction.style import PALETTE, add_legend, draw_curve, label, new_figure

SCHEMES = {
    "med": ("MED", "-"),
    "mmtt-ideal": ("MMTT-Ideal", "--"),
    "mmtt-uncertain": ("MMTT-Uncertain", ":"),
    "med-held-back": ("MED, half held back (ours)", "-."),
}
AXES = {
    "seconds": "time of a round (s)",
    "satisfaction": "rounds done by the deadline (%)",
    "fulfilment": "samples trained (%)",
    "drop": "samples dropped (%)",
    "occupancy": "time that learners are busy (%)",
}


def plot_measures(
    rows: Sequence[Row], *, over: str, titles: Mapping[str, str], thesis: Mapping[tuple[str, str], tuple[int, float]]
) -> Figure:
    """Draw them over a column.

    Args:
        titles: by measure.
        thesis: what its text says of the level of a measure, by measure and scheme: the size, and the value.
    """
    figure, axes = new_figure(num_columns=3, num_rows=2)
    averaged = [row for own in by_seed(rows).values() for row in Averages(own, over).rows()]
    for panel, column in zip(axes, AXES, strict=False):
        for index, (scheme, (name, line)) in enumerate(SCHEMES.items()):
            draw_curve(panel, where(averaged, scheme=scheme), x=over, y=column, name=name, index=index, line=line)
            if told := thesis.get((column, scheme)):
                panel.scatter(*told, marker="*", s=70, facecolors="none", edgecolors=PALETTE[index], zorder=3)
        label(panel, title=titles[column], x=over, y=AXES[column])
    _draw_shares(axes[5], rows, over)
    for panel in axes:
        panel.set_xticks(sorted({row[over] for row in averaged}))
    axes[0].set_ylim(bottom=0)
    axes[0].scatter([], [], marker="*", s=70, facecolors="none", edgecolors="grey", label="in the thesis' text")
    add_legend(figure, axes[0])
    return figure


def _draw_shares(panel: Axes, rows: Sequence[Row], over: str) -> None:
    shares = [(share.size, share) for share in shares_closed(rows, over) if share.size is not None]
    sizes, percents = [size for size, _ in shares], [share.percent for _, share in shares]
    errors = [[share.percent - share.low for _, share in shares], [share.high - share.percent for _, share in shares]]
    index = list(SCHEMES).index("med-held-back")
    panel.errorbar(sizes, percents, errors, fmt="D", color=PALETTE[index], capsize=3)
    panel.axhline(100 * GOAL, color="grey", linestyle=":")
    panel.set_ylim(bottom=0)
    label(panel, title="Gap between MED and MMTT-Ideal", x=over, y="of it, closed by ours (%)")
