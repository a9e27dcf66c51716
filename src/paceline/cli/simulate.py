"""``paceline simulate``: a job of any kind on a modelled fleet, on virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import running
from paceline.fleets.files import load_fleet
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.topologies.job_files import load_job


def simulate(
    job: Annotated[Path, typer.Argument(help="The job file, of any kind (TOML).")],
    fleet: Annotated[Path, typer.Argument(help="The fleet file (TOML).")],
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    time_only: Annotated[bool, typer.Option("--time-only", help="Leave the gradients out; only time passes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a job on a modelled fleet: the same code on virtual time, exactly repeatable from the job's seed.

    Example: paceline simulate job.toml fleet.toml
    """
    devices = load_fleet(fleet, VirtualDevice)
    running.play(load_job(job), VirtualFleet(devices, is_time_only=time_only), folder, as_json=as_json)
