"""``paceline report``: the folder of a run as an HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.report import RunFolder, write_report


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, finished or not.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there instead of RUN/report.html.")
    ] = None,
    grams_per_kwh: Annotated[
        float, typer.Option(min=0.0, help="What a kWh emits where the learners are, in grams of CO2 equivalents.")
    ] = GRAMS_CO2_PER_KWH,
    as_json: Annotated[bool, typer.Option("--json", help="Print where the page is as JSON.")] = False,
) -> None:
    """Make one HTML page of a run: accuracy, time against the deadline, energy, and who came and left.

    The page needs no network and no other file.

    Example: paceline report runs/digits
    """
    path = write_report(RunFolder.open(run), output, grams_per_kwh)
    print(json.dumps({"report": str(path)}) if as_json else f"The report is in {path}")
