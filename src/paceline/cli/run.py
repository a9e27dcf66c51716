"""``paceline run``: a job of any kind on processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline import topologies
from paceline.cli import running
from paceline.errors import ConfigError
from paceline.fleets.files import load_fleet
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.topologies.job_files import load_job


def run(
    job: Annotated[Path, typer.Argument(help="The job file, of any kind (TOML).")],
    devices: Annotated[int | None, typer.Option(min=1, help="Start so many devices, all alike.")] = None,
    fleet: Annotated[Path | None, typer.Option(help="Start the devices of this fleet file (TOML).")] = None,
    folder: Annotated[Path | None, typer.Option(help="A new folder for the run; by default in runs/.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the final model there (.safetensors).")] = None,
    store: Annotated[str | None, typer.Option(metavar="URL", help="Have peers share figures in this Redis.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="End with the result as one JSON object.")] = False,
) -> None:
    """Run a job of any kind on this machine: each device is a process, and all talk over HTTP.

    Example: paceline run job.toml --devices 4
    """
    if (devices is None) == (fleet is None):
        raise ConfigError("say what to start: --devices N, or --fleet FILE")
    spec = load_job(job)
    noun = topologies.of_job(spec).noun
    if fleet is not None:
        started = load_fleet(fleet, LocalDevice)
    else:
        started = [LocalDevice(name=f"{noun}-{number}") for number in range(1, (devices or 0) + 1)]
    local = LocalFleet(started, options=() if store is None else ("--store", store))
    console = Console(stderr=as_json)
    console.print(f"Starting {len(local.devices)} devices on this machine …", highlight=False)
    running.play(spec, local, folder, as_json=as_json, save=save)
