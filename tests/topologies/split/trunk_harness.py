"""A trunk on virtual time, and sources that are played by hand, over a network in memory."""

import asyncio
import contextlib
import inspect

import torch

import paceline
from paceline import axon
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.faulty import FaultyTransport
from paceline.axon.transports.links import Fault, Link
from paceline.axon.transports.memory import MemoryNetwork
from paceline.fleets import virtual_loop
from paceline.fleets.modelled import InstantMachine
from paceline.learning.model_parts import learned_by
from paceline.learning.vectors import Layout
from paceline.topologies.base import Contact, DeviceOptions, Environment, Node, run_in_place, serving
from paceline.topologies.split.messages import TrunkService
from paceline.topologies.split.samples import view_of
from paceline.topologies.split.schedule import schedule_of
from paceline.topologies.split.source import Source
from paceline.topologies.split.topology import SplitPlan
from paceline.topologies.split.trunk import Trunk
from tests.topologies.split.runs import CUT, WIDTH, small_split


def beside_trunk(make=Trunk, *, is_abandoned=False, **rules):
    """Run an async test while a trunk runs, which must come to its end unless it is abandoned."""

    def decorate(test):
        def run(**arguments):
            harness = TrunkHarness(make, **rules)
            virtual_loop.run(harness.play(test(harness, **arguments), is_abandoned=is_abandoned))

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


class TrunkHarness:
    """A trunk to call by hand: two steps an epoch, one part to test, and a copy."""

    def __init__(self, make=Trunk, **rules):
        self._make = make
        self.prepared = small_split(**{"num_samples": 64, "num_test_samples": 40, "sources": 2, "epochs": 2, **rules})
        self.events = []
        self.trunk = None
        self._network = MemoryNetwork()

    async def play(self, acting, is_abandoned=False):
        """Act while the trunk runs."""
        env = Environment(emit=self.events.append, run_blocking=run_in_place, clock="virtual", machine=InstantMachine())
        self.trunk, transport = self._make(self.prepared, env), self._network.host("trunk")
        async with serving(self.trunk, SplitPlan(self.prepared), "trunk", transport=transport) as self._url:
            self._running = asyncio.ensure_future(self.trunk.run(self._url))
            try:
                acting = asyncio.ensure_future(acting)
                await asyncio.wait((self._running, acting), return_when=asyncio.FIRST_COMPLETED)
                if self._running.done():
                    self._running.result()  # raises what went wrong: else the others would wait for ever
                await acting
                if not is_abandoned:
                    await self.over()
            finally:
                self._running.cancel()
                await asyncio.gather(self._running, return_exceptions=True)

    async def over(self):
        """Wait for the end of the run."""
        await asyncio.wait((self._running,), timeout=60)
        assert self._running.done(), "the run goes on, and nobody is there"
        self._running.result()

    def source(self, name, loses_reply=lambda request: False):
        """A source that has not joined yet."""

        def fate(request):
            return Fault.LOSE_REPLY if loses_reply(request) else Fault.NONE

        transport = FaultyTransport(self._network.host(name), plan=fate)
        return ManualSource(axon.connect(self._url, interface=TrunkService, transport=transport), name, self.prepared)

    async def begin(self, *names):
        """Have sources join and wait for the first epoch; returns them."""
        sources = [self.source(name) for name in names]
        await asyncio.gather(*(source.join() for source in sources))
        await asyncio.gather(*(source.next_epoch() for source in sources))
        return sources

    def real_source(self, name, events=None, allowed=None, **options):
        """A source that plays by itself, and the link that it has; its events go to `events`."""
        link = FaultyTransport(self._network.host(name), Link(latency_seconds=0.05))
        node = Node(
            name=name,
            contacts=[Contact(self._url)],
            transport=CountedTransport(link),
            options=DeviceOptions(**options),
            emit=[].append if events is None else events.append,
            run_blocking=run_in_place,
            machine=InstantMachine(),
        )

        def load(terms, number):
            return view_of(self.prepared.dataset, terms, number)

        return Source(node, node.machine.engine(0.0), load, allowed), link

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


class ManualSource:
    """A source, call by call."""

    def __init__(self, trunk, name, prepared):
        self.trunk = trunk
        self.name = name
        self._prepared = prepared
        self._terms = prepared.terms(1, (CUT,))
        self.session = ""

    async def join(self, version=paceline.__version__):
        welcome = await self.trunk.join.coro(self.name, version)
        self.session = welcome.session
        return welcome

    async def next_epoch(self, after=0):
        return await self.trunk.next_epoch.coro(self.session, after)

    async def sync(self, epoch, index, tensors=...):
        """Send what belongs there, or something else."""
        tensors = self.content(epoch, index) if tensors is ... else tensors
        return await self.trunk.sync.coro(self.session, epoch, index, tensors)

    def content(self, epoch, index):
        phase, _ = schedule_of(self._terms, epoch)[index]
        if phase == "backup":
            return {kind: vector + len(self.name) for kind, vector in self.branch().items()}
        return {"values": torch.ones(32 if phase == "step" else 40, WIDTH)}

    def branch(self):
        """The initial parameters of a branch, as they travel."""
        state = learned_by(self._prepared.chain().before(CUT))
        return Layout(state).pack(state)

    async def sync_all(self, epoch, first=0):
        """Go through all sync points of an epoch from here on."""
        for index in range(first, len(schedule_of(self._terms, epoch))):
            assert (await self.sync(epoch, index)).status == "ready"

    async def take_part(self, after=0):
        """Do all that is left."""
        while (ticket := await self.next_epoch(after)).status != "over":
            if ticket.status == "open":
                await self.sync_all(ticket.epoch, ticket.index)
                after = ticket.epoch
        return ticket


@contextlib.asynccontextmanager
async def meanwhile(coroutine):
    """Have something done while the block runs, and then wait for it."""
    task = asyncio.ensure_future(coroutine)
    try:
        yield task
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
