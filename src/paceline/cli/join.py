"""``paceline join``: take part in a run, whatever it is."""

from __future__ import annotations

import asyncio
import functools
import time
from dataclasses import replace
from typing import Any

from rich.console import Console

from paceline import plugins, topologies
from paceline.axon.retry import retry
from paceline.cli.devices import Device, ask_consent, parse_contact, print_json, takes_device
from paceline.cli.options import Url
from paceline.cli.signals import ending_by_signal
from paceline.cli.tls import warn_of_clear_token
from paceline.config import table_named
from paceline.errors import ConfigError, TransportError, one_line
from paceline.events import Emit, Event
from paceline.fleets.joined import run_member
from paceline.fleets.live import Termination, run_live
from paceline.fleets.processes import is_device
from paceline.learning import checkpoints
from paceline.logs import is_json, say
from paceline.report import LinePrinter
from paceline.report.event_log import EventLog
from paceline.report.metrics import RunMetrics
from paceline.topologies.base import COMMAND_WITHOUT_HOST, Contact, Description, Finished, RoleService, Topology
from paceline.topologies.job_files import imports_of, parse_job


@takes_device
def join(url: Url, device: Device) -> None:
    """Take part in a run, as a learner, a source or a peer.

    What it does follows from what is trained. It first prints what it will send.

    Example: paceline join https://10.0.0.2:7223#sha256:… --token S3cret
    """
    contact = parse_contact("URL", url)
    warn_of_clear_token(contact.address, device.token)
    termination = Termination()
    with ending_by_signal():
        main = _join(device, contact, termination)
        finished = run_live(main, None if is_device() else termination)
    if device.save is not None and finished.state is not None:
        checkpoints.write(device.save, finished.state)
    if not device.as_json:
        say("over", f"the run is over: {one_line(finished.reason)}", show=print, fields={"reason": finished.reason})


async def _join(device: Device, contact: Contact, termination: Termination) -> Finished:
    loop, life = asyncio.get_running_loop(), time.time_ns()
    began_at = loop.time()

    def now() -> float:
        return loop.time() - began_at

    asking = device.node([contact], lambda event: None, now, life)
    describe = asking.connect(RoleService).describe.coro
    patience_seconds = device.options.patience_seconds

    def warn(error: TransportError) -> None:
        text = f"{one_line(str(error))}; trying again for {patience_seconds:g} s (--patience)"
        say("host_out_of_reach", text, level="warning", fields={"url": contact.address})

    found: Description = await retry(describe, give_up_seconds=patience_seconds, on_first_failure=warn)
    topology = topologies.named(found.topology)
    device.check_options(topology)
    show = print_json if device.as_json else _shown(topology)
    metrics = RunMetrics(next(iter(topology.kinds.values())))

    def emit(event: Event) -> None:
        show(event)
        metrics.feed(event)

    # A peer that keeps nothing ends by itself, after its epoch.
    termination.can_go_on = topology.is_served or device.options.state_file is not None
    node = replace(device.node([contact], emit, now, life), is_stopping=termination.is_stopping, metrics=metrics)
    consent = ask_consent(device, topology, found.job, contact.address)
    if topology.is_served:
        member = topology.join(node)
        termination.roles.append(member)
        _show(consent, device)
        return await run_member(member, node)
    names_file = any(isinstance(table, dict) and "path" in table for table in found.job.values())
    if names_file or "import" in table_named(found.job, "data", "the job there"):
        raise ConfigError(
            f"the job at {contact.address} names data of that device; with a job file of your own, run "
            f"paceline {COMMAND_WITHOUT_HOST} JOB --peer {contact.address}"
        )
    for path in imports_of(found.job):  # first: what is prepared is imported
        plugins.check_allowed(path, "import", device.options.allowed or ())
    plan = topology.prepare(parse_job(found.job, contact.address))
    member = plan.member(node, None)
    termination.roles.append(member)
    _show(consent, device)
    return await run_member(member, node, plan, device.listen, address=device.address)


def _shown(topology: Topology[Any]) -> Emit:
    """Return what shows the events of this device."""
    progress = topology.device_progress()
    return EventLog(progress).feed if is_json() else LinePrinter(Console(), progress).feed


def _show(lines: list[str], device: Device) -> None:
    if not device.as_json:
        say("consent", "\n".join(map(one_line, lines)), show=functools.partial(print, flush=True))
