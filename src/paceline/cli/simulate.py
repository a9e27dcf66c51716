"""``paceline simulate``: a job of any kind on a modelled fleet, on virtual time."""

from __future__ import annotations

from typing import Annotated

from paceline.cli import show_run
from paceline.cli.options import DeviceName, FleetFile, Folder, JobFile, Overwrite, PagePort, ResultAsJson, flag
from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.topologies.job_files import load_job


def simulate(
    job: JobFile,
    fleet: FleetFile,
    folder: Folder = None,
    overwrite: Overwrite = False,
    time_only: Annotated[bool, flag("--time-only", "Skip the gradients; only time passes.")] = False,
    device: DeviceName = "cpu",
    page: PagePort = None,
    as_json: ResultAsJson = False,
) -> None:
    """Run any job on a modelled fleet, in virtual time.

    The same job on the same fleet gives the same events; the job's seed decides them.

    Example: paceline simulate job.toml fleet.toml
    """
    devices = load_fleet(fleet, VirtualDevice)
    virtual = VirtualFleet(devices, is_time_only=time_only, device=device)
    show_run.run_and_show(load_job(job), virtual, folder, overwrite=overwrite, as_json=as_json, page=page)
