"""``paceline testbed``: a job of any kind on emulated devices, in real time."""

from __future__ import annotations

from paceline.cli import show_run
from paceline.cli.options import FleetFile, Folder, JobFile, Overwrite, PagePort, ResultAsJson
from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.testbed import TestbedDevice, TestbedFleet
from paceline.topologies.job_files import load_job


def testbed(
    job: JobFile,
    fleet: FleetFile,
    folder: Folder = None,  # noqa: PT028
    overwrite: Overwrite = False,  # noqa: PT028
    page: PagePort = None,  # noqa: PT028
    as_json: ResultAsJson = False,  # noqa: PT028
) -> None:
    """Run any job on emulated devices: own link, own CPU share.

    Needs Linux and root; run it with sudo, for instance.

    Example: paceline testbed job.toml fleet.toml
    """
    devices = TestbedFleet(load_fleet(fleet, TestbedDevice))
    opening = f"Starting devices on the testbed: {len(devices.devices)} …"
    show_run.run_and_show(
        load_job(job), devices, folder, overwrite=overwrite, as_json=as_json, page=page, opening=opening
    )
