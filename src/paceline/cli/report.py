"""``paceline report``: the folder of a run as an HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.options import ResultAsJson, option
from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.report import RunFolder, write_report


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or not.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Page to write; by default RUN/report.html.")
    ] = None,
    grams_per_kwh: Annotated[
        float, option("GRAMS", f"Grams of CO2 emitted per kWh ({GRAMS_CO2_PER_KWH:g}).", min=0.0)
    ] = GRAMS_CO2_PER_KWH,
    as_json: ResultAsJson = False,
) -> None:
    """Write a report on a run, as one HTML page.

    Example: paceline report runs/digits
    """
    path = write_report(RunFolder.open(run), output, grams_per_kwh)
    print(json.dumps({"report": str(path)}) if as_json else f"The report is in {path}")
