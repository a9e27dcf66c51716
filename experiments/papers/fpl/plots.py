"""Bars of all schemes, one behind the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from papers.fpl.setting import FEDAVG, FPL_F1, FPL_F2, GFL_CFF, GFL_FF, IMAGES, SPLIT
from reproduction.statistics import estimate
from reproduction.style import PALETTE

COLOURS = {
    IMAGES: PALETTE[0],
    SPLIT: PALETTE[4],
    GFL_FF: PALETTE[3],
    GFL_CFF: PALETTE[1],
    FPL_F1: PALETTE[2],
    FPL_F2: PALETTE[5],
    FEDAVG: "#999999",
}
SHORT_NAMES = {
    IMAGES: "images",
    SPLIT: "SL",
    GFL_FF: "gFL\nF1/F2",
    GFL_CFF: "gFL\nC2/F1/F2",
    FPL_F1: "FPL\nJ→F1",
    FPL_F2: "FPL\nJ→F2",
    FEDAVG: "FedAvg\n(ours)",
}


def draw_bars(
    axes: Axes,
    values: Mapping[str, Sequence[float]],
    *,
    place: float = 0.0,
    width: float = 0.8,
    hatch: str = "",
    name: str = "",
) -> None:
    """Draw a bar for each scheme: the mean over seeds, with its 95 % interval as a whisker if there are several.

    Args:
        values: of all seeds, by scheme.
        place: of the bar beside the middle.
        hatch: how it is filled, as matplotlib says it.
        name: for the legend.
    """
    for number, (scheme, own) in enumerate(values.items()):
        found = estimate(own)
        axes.bar(
            number + place,
            found.mean,
            width,
            color=COLOURS[scheme],
            edgecolor="white",
            hatch=hatch,
            yerr=found.half_width,
            capsize=2,
            error_kw={"lw": 1},
            label=name if not number else None,
        )
    axes.set_xticks(range(len(values)), [SHORT_NAMES[scheme] for scheme in values], fontsize=7)
    axes.grid(axis="x", visible=False)
