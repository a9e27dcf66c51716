"""``paceline run``: a job of any kind on processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from paceline import topologies
from paceline.cli import show_run
from paceline.cli.options import Compiles, DeviceName, Folder, JobFile, Overwrite, PagePort, ResultAsJson, Save, option
from paceline.errors import ConfigError
from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.topologies.job_files import load_job


def run(
    job: JobFile,
    devices: Annotated[int | None, option("N", "Number of devices to start, all alike.", min=1)] = None,
    fleet: Annotated[Path | None, option("FILE", "Fleet file (TOML) with the devices to start.")] = None,
    folder: Folder = None,
    overwrite: Overwrite = False,
    save: Save = None,
    store: Annotated[str | None, option("URL", "Redis server where peers share figures.")] = None,
    threads: Annotated[int, option("N", "Threads that each device trains with (1).", min=1)] = 1,
    device: DeviceName = "cpu",
    compiles: Compiles = False,
    page: PagePort = None,
    as_json: ResultAsJson = False,
) -> None:
    """Run any job on this machine, each device a process.

    Example: paceline run job.toml --devices 4
    """
    if (devices is None) == (fleet is None):
        raise ConfigError("give the devices to start: either --devices N or --fleet FILE")
    spec = load_job(job)
    topology = topologies.of_job(spec)
    if store is not None and "store_url" not in topology.used_options:
        raise ConfigError(f"--store does nothing for a {topology.noun} of a {topology.name} job: leave it out")
    if fleet is not None:
        started = load_fleet(fleet, LocalDevice)
    else:
        started = [LocalDevice(name=f"{topology.noun}-{number}") for number in range(1, (devices or 0) + 1)]
    options = [*(() if store is None else ("--store", store)), *(("--compile",) if compiles else ())]
    local = LocalFleet(started, options=options, threads=threads, device=device)
    opening = f"Starting devices on this machine: {len(local.devices)} …"
    show_run.run_and_show(
        spec, local, folder, overwrite=overwrite, as_json=as_json, page=page, save=save, opening=opening
    )
