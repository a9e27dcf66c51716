"""``paceline testbed``: a job of any kind on emulated devices, in real time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli import running
from paceline.fleets.files import load_fleet
from paceline.fleets.testbed import TestbedDevice, TestbedFleet
from paceline.topologies.job_files import load_job


def testbed(
    job: Annotated[Path, typer.Argument(help="The job file, of any kind (TOML).")],
    fleet: Annotated[Path, typer.Argument(help="The fleet file (TOML).")],
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,  # noqa: PT028
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,  # noqa: PT028
) -> None:
    """Run a job on an emulated testbed: each device has its own network namespace, link and share of the processor.

    Needs Linux, and root: run it by sudo, for instance.

    Example: paceline testbed job.toml fleet.toml
    """
    devices = TestbedFleet(load_fleet(fleet, TestbedDevice))
    spec = load_job(job)
    Console(stderr=as_json).print(f"Starting {len(devices.devices)} devices …", highlight=False)
    running.play(spec, devices, folder, as_json=as_json)
