"""``paceline join``: take part in a run, whatever it is."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.console import Console

from paceline import topologies
from paceline.cli.devices import Device, parse_contact, print_json, takes_device
from paceline.cli.lines import one_line
from paceline.errors import ConfigError
from paceline.fleets.joined import run_member
from paceline.fleets.live import run_live
from paceline.learning import checkpoints
from paceline.report import LinePrinter
from paceline.topologies.base import Contact, Described, Description, Finished
from paceline.topologies.job_files import parse_job


@takes_device
def join(
    url: Annotated[str, typer.Argument(help="Address of a host or a peer, like https://10.0.0.2:7223#sha256:…")],
    device: Device,
) -> None:
    """Take part in a run: find out what is trained there, and train what this device can until the run is over.

    Example: paceline join https://10.0.0.2:7223#sha256:… --token S3cret --name pi4
    """
    finished = run_live(_join(device, parse_contact("URL", url)))
    if device.save is not None and finished.state is not None:
        checkpoints.write(device.save, finished.state)
    if not device.as_json:
        print(f"the run is over: {one_line(finished.reason)}")


async def _join(device: Device, contact: Contact) -> Finished:
    loop, life = asyncio.get_running_loop(), time.time_ns()
    began_at = loop.time()

    def now() -> float:
        return loop.time() - began_at

    asking = device.node([contact], lambda event: None, now, life)
    found: Description = await asking.connect(Described).describe.coro()
    topology = topologies.named(found.topology)
    emit = print_json if device.as_json else LinePrinter(Console(), topology.device_progress()).feed
    node = device.node([contact], emit, now, life)
    if topology.is_served:
        return await run_member(topology.join(node), node)
    if any(isinstance(table, dict) and "path" in table for table in found.job.values()):
        raise ConfigError(
            f"the job at {contact.address} names a file of that device; with a job file of your own, run "
            f"paceline gossip JOB --peer {contact.address}"
        )
    plan = topology.prepare(parse_job(found.job, contact.address))
    unknown = [path for path in plan.import_paths if path not in (device.options.allowed or ())]
    if unknown:
        raise ConfigError(f"the job's model is at {unknown[0]}; allow it by --allow-model {unknown[0]}")
    return await run_member(plan.member(node, None), node, plan, device.entrance, address=device.address)
