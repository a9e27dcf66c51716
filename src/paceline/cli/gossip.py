"""``paceline gossip``: train without a server, as the first peer or a further one."""

from __future__ import annotations

import asyncio
import functools
import signal
import time
from dataclasses import replace
from typing import Annotated, Any

from rich.console import Console

from paceline import topologies
from paceline.cli import show_run
from paceline.cli.devices import Device, ask_consent, parse_contact, print_json, takes_device
from paceline.cli.listening import with_page
from paceline.cli.options import Folder, JobFile, Overwrite, Track, option
from paceline.cli.signals import ending_by_signal
from paceline.cli.tls import page_url, warn_of_clear_token
from paceline.errors import ConfigError
from paceline.fleets.joined import JoinedFleet, run_member
from paceline.fleets.live import Termination, run_live
from paceline.fleets.processes import STOP_SIGNAL, SUSPEND_SIGNAL, is_device
from paceline.learning import checkpoints
from paceline.logs import say
from paceline.report.trackers import PRINTING
from paceline.topologies.base import Contact, Finished, Host, Node, Plan
from paceline.topologies.job_files import load_job


@takes_device
def gossip(
    job: JobFile,
    device: Device,
    peer: Annotated[list[str] | None, option("URL", "Peer to join; one or two are enough.")] = None,
    folder: Folder = None,
    overwrite: Overwrite = False,
    track: Track = None,
) -> None:
    """Train without a server: start the first peer, or another.

    Example: paceline gossip job.toml --listen 10.0.0.3:7223 --data 1/8
    """
    spec = load_job(job)
    topology = topologies.of_job(spec)
    if topology.is_served:
        raise ConfigError(f"{job}: devices of this job join a server; start it with paceline serve {job}")
    device.check_options(topology)
    contacts = [parse_contact("--peer", url) for url in peer or ()]
    if device.options.behind_nat and not contacts:
        raise ConfigError("--behind-nat: a peer behind NAT joins one that can be called; name that by --peer")
    consent = ask_consent(device, topology, spec.described(), "other peers")
    if device.as_json and folder is None:
        if track:
            raise ConfigError("--track follows a run that is kept: give a --folder, or leave out --json")
        is_kept, number = device.options.state_file is not None, SUSPEND_SIGNAL if is_device() else signal.SIGTERM
        termination = Termination(can_go_on=is_kept, signal=number)
        with ending_by_signal():
            finished = run_live(_take_part(device, topology.prepare(spec), contacts, termination), termination)
        if device.save is not None and finished.state is not None:
            checkpoints.write(device.save, finished.state)
        return
    console = Console(stderr=device.as_json or PRINTING in (track or ()))

    def announce(url: str) -> None:
        if device.options.behind_nat:
            console.print("\n".join(consent), highlight=False, soft_wrap=True)
            return
        shown = "" if device.token is None else " --token …"
        line = "\n".join(consent) + f"\nOn another device, run\n  paceline join {url}{shown} --data I/N"
        asks = "" if device.token is None else ", which asks for the token"
        line += f"\nTo watch it in a browser, open {page_url(url)}{asks}"
        warn_of_clear_token(url.partition("#")[0], device.token)
        show = functools.partial(console.print, highlight=False, soft_wrap=True)
        say("listening", line, show=show, fields={"url": url})

    def make_node(host: Host) -> Node:
        return device.node(contacts, host.hear, host.env.now, life=time.time_ns())

    fleet = JoinedFleet(with_page(device.listen), announce, make_node=make_node, address=device.address)
    show_run.run_and_show(
        spec, fleet, folder, overwrite=overwrite, as_json=device.as_json, save=device.save, track=track
    )


async def _take_part(device: Device, plan: Plan[Any], contacts: list[Contact], termination: Termination) -> Finished:
    """Take part without a record of the run: whoever started this process keeps one, and may end it early."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(STOP_SIGNAL, stopping.set)
    node = device.node(contacts, print_json, loop.time, life=time.time_ns())
    node = replace(node, is_stopping=lambda: stopping.is_set() or termination.is_stopping())
    member = plan.member(node, None)
    termination.roles.append(member)
    return await run_member(member, node, plan, device.listen, address=device.address)
