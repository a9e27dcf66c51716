"""The five measures over the number of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.med.plots import plot_measures
from reproduction import Row

TITLES = {
    "seconds": "Fig. 4.6",
    "satisfaction": "Fig. 4.7",
    "fulfilment": "Fig. 4.8",
    "drop": "Fig. 4.9",
    "occupancy": "Fig. 4.10",
}
THESIS = {("seconds", "med"): (3, 40.0), ("occupancy", "med"): (4, 85.0)}


def plot(rows: Sequence[Row]) -> Figure:
    """A plot for each, and one for our goal."""
    return plot_measures(rows, over="jobs", titles=TITLES, thesis=THESIS)
