"""``paceline join``: take part in a run, whatever it is."""

from __future__ import annotations

import asyncio
import time

from rich.console import Console

from paceline import topologies
from paceline.axon.retry import retry
from paceline.cli.devices import Device, parse_contact, print_json, takes_device
from paceline.cli.options import Url
from paceline.errors import ConfigError, one_line
from paceline.fleets.joined import run_member
from paceline.fleets.live import run_live
from paceline.learning import checkpoints
from paceline.report import LinePrinter
from paceline.topologies.base import COMMAND_WITHOUT_HOST, Contact, Description, Finished, RoleService
from paceline.topologies.job_files import parse_job


@takes_device
def join(url: Url, device: Device) -> None:
    """Take part in a run, as a learner, a source or a peer.

    What is trained there, and so what this device does, is found out at the address.

    Example: paceline join https://10.0.0.2:7223#sha256:… --token S3cret
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
    describe = asking.connect(RoleService).describe.coro
    found: Description = await retry(describe, give_up_seconds=device.options.patience_seconds)
    topology = topologies.named(found.topology)
    emit = print_json if device.as_json else LinePrinter(Console(), topology.device_progress()).feed
    node = device.node([contact], emit, now, life)
    if topology.is_served:
        return await run_member(topology.join(node), node)
    if any(isinstance(table, dict) and "path" in table for table in found.job.values()):
        raise ConfigError(
            f"the job at {contact.address} names a file of that device; with a job file of your own, run "
            f"paceline {COMMAND_WITHOUT_HOST} JOB --peer {contact.address}"
        )
    plan = topology.prepare(parse_job(found.job, contact.address))
    unknown = [path for path in plan.import_paths if path not in (device.options.allowed or ())]
    if unknown:
        raise ConfigError(f"the job's model is {unknown[0]}; allow it with --allow-model {unknown[0]}")
    return await run_member(plan.member(node, None), node, plan, device.listen, address=device.address)
