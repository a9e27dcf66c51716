"""``paceline testbed``: a job on emulated devices, in real time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline import config
from paceline.cli import results
from paceline.fleets.testbed import TestbedFleet


def testbed(
    job: Annotated[Path, typer.Argument(help="The job file: of a job, a pool or a split job (TOML).")],
    fleet: Annotated[Path, typer.Argument(help="The fleet file (TOML).")],
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,  # noqa: PT028
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,  # noqa: PT028
) -> None:
    """Run a job on an emulated testbed: each device has its own network namespace, link and share of the processor.

    Needs Linux, and root: run it by sudo, for instance.

    Example: paceline testbed job.toml fleet.toml
    """
    devices = TestbedFleet(config.load_testbed(fleet))
    told = f"Starting {len(devices.devices)} devices; each measures itself first …"
    Console(stderr=as_json).print(told, highlight=False)
    results.play(job, devices, folder, as_json=as_json)
