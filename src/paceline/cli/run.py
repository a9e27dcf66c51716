"""``paceline run``: a job of any kind on processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from paceline import topologies
from paceline.cli import show_run
from paceline.cli.options import Folder, JobFile, ResultAsJson, Save, option
from paceline.errors import ConfigError
from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.topologies.job_files import load_job


def run(
    job: JobFile,
    devices: Annotated[int | None, option("N", "Number of devices to start, all alike.", min=1)] = None,
    fleet: Annotated[Path | None, option("FILE", "Fleet file (TOML) with the devices to start.")] = None,
    folder: Folder = None,
    save: Save = None,
    store: Annotated[str | None, option("URL", "Redis server where peers share figures.")] = None,
    as_json: ResultAsJson = False,
) -> None:
    """Run any job on this machine, with a process for each device.

    Example: paceline run job.toml --devices 4
    """
    if (devices is None) == (fleet is None):
        raise ConfigError("give the devices to start: either --devices N or --fleet FILE")
    spec = load_job(job)
    noun = topologies.of_job(spec).noun
    if fleet is not None:
        started = load_fleet(fleet, LocalDevice)
    else:
        started = [LocalDevice(name=f"{noun}-{number}") for number in range(1, (devices or 0) + 1)]
    local = LocalFleet(started, options=() if store is None else ("--store", store))
    opening = f"Starting devices on this machine: {len(local.devices)} …"
    show_run.run_and_show(spec, local, folder, as_json=as_json, save=save, opening=opening)
