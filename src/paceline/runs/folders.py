"""Where runs are kept."""

from __future__ import annotations

import datetime
from pathlib import Path

RUNS = Path("runs")
"""Where runs are kept if nothing else is said."""


def new_path(folder: Path | str | None) -> Path:
    """The folder of a new run: the given one, or one named for the moment in `RUNS`."""
    return RUNS / datetime.datetime.now().strftime("%Y%m%d-%H%M%S") if folder is None else Path(folder)
