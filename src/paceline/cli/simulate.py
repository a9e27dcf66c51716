"""``paceline simulate``: a job on a modelled fleet, on virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline import config, runs
from paceline.cli import results
from paceline.fleets.virtual import VirtualFleet


def simulate(
    job: Annotated[Path, typer.Argument(help="The job file (TOML).")],
    fleet: Annotated[Path, typer.Argument(help="The fleet file (TOML).")],
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    time_only: Annotated[bool, typer.Option("--time-only", help="Leave the gradients out; only time passes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a job on a modelled fleet: the same code on virtual time, exactly repeatable from the job's seed.

    Example: paceline simulate job.toml fleet.toml
    """
    devices = config.load_fleet(fleet)
    prepared = runs.prepare(config.load_job(job), folder)
    console = Console(stderr=as_json)
    with results.watching(console) as watch:
        run = prepared.start(VirtualFleet(devices, is_time_only=time_only), [watch])
    results.show(run, console, as_json=as_json)
