"""The five measures over the number of learners."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.med.plots import plot_measures
from reproduction import Row

TITLES = {
    "seconds": "Fig. 4.1",
    "satisfaction": "Fig. 4.2",
    "fulfilment": "Fig. 4.3",
    "drop": "Fig. 4.4",
    "occupancy": "Fig. 4.5",
}


def plot(rows: Sequence[Row]) -> Figure:
    """A plot for each, and one for our goal."""
    return plot_measures(rows, over="learners", titles=TITLES, thesis={("seconds", "med"): (10, 20)})
