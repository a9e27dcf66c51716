"""A fleet of devices that join over the network."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from paceline.axon.transports.base import Site
from paceline.devices.machines import LiveMachine, Machine
from paceline.fleets.live import ListenOptions, LiveFleet
from paceline.topologies.base import Finished, Host, Member, Node, Plan, serving
from paceline.topologies.events import MemberListening


class JoinedFleet(LiveFleet):
    """Whoever joins. Where devices join each other, this one is among them.

    Args:
        announce: receives the address where others can join, once they can.
        make_node: makes this device as a member, of the host's `hear` and `now`; only where there is no host to join.
        address: address by which others reach this device, if not where it listens.
    """

    keeps_devices = True

    def __init__(
        self,
        listen: ListenOptions,
        announce: Callable[[str], None] = lambda address: None,
        *,
        make_machine: Callable[[], Machine] = LiveMachine,
        make_node: Callable[[Host], Node] | None = None,
        address: str | None = None,
    ) -> None:
        super().__init__(listen, make_machine)
        self._announce = announce
        self._make_node = make_node
        self._address = address

    @contextlib.asynccontextmanager
    async def members(self, host: Host, plan: Plan[Any], address: str) -> AsyncIterator[asyncio.Future[None]]:
        if self._make_node is None:
            self._announce(address)
            yield asyncio.get_running_loop().create_future()
            return
        env = host.env
        node = replace(self._make_node(host), is_stopping=env.is_stopping, metrics=env.metrics, folder=env.folder)
        if node.options.state_file is None:
            self.termination.can_go_on = False  # this device would have nothing to go on from
        taking_part = asyncio.ensure_future(self._take_part(host, plan, node))
        try:
            yield taking_part
        finally:
            taking_part.cancel()
            await asyncio.wait((taking_part,))

    async def _take_part(self, host: Host, plan: Plan[Any], node: Node) -> None:
        await asyncio.sleep(0)  # the host's start is recorded before this device's
        member = plan.member(node, None)
        self.termination.roles.append(member)
        sites = [make(host.env) for make in self._listen.make_sites]
        finished = await run_member(member, node, plan, self._listen, self._announce, self._address, sites)
        host.member_ended(node.name, finished)
        await asyncio.get_running_loop().create_future()  # from here, the host ends the run


async def run_member(
    member: Member,
    node: Node,
    plan: Plan[Any] | None = None,
    listen: ListenOptions | None = None,
    announce: Callable[[str], None] = lambda address: None,
    address: str | None = None,
    sites: Sequence[Site] = (),
) -> Finished:
    """Take part as a member until the run is over; says goodbye when it fails or is interrupted.

    Args:
        plan: the job, and `listen`, where members call each other.
        announce: receives the address where others can call it.
        address: address by which others reach it, if not where it listens.
        sites: what else is served at its address.
    """
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(node.machine.close)
        own = ""
        if plan is not None and listen is not None and member.calls:
            served = serving(member, plan, node.name, node, sites=sites, **listen.settings)
            listening = await stack.enter_async_context(served)
            own = address or listening
            node.emit(MemberListening(at=node.now(), learner=node.name, address=own, fingerprint=node.fingerprint))
            announce(own if node.fingerprint is None else f"{own}#{node.fingerprint}")
        try:
            return await member.run(own)
        except BaseException:
            await member.leave()
            raise
