"""A trunk on virtual time, and sources that are played by hand, over a network in memory."""

import asyncio
import contextlib

import torch

import paceline
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.faulty import FaultyTransport
from paceline.axon.transports.links import Fault, Link
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.energy import ModelledMeter, PowerModel
from paceline.fleets import virtual_loop
from paceline.learning.engines import Engine
from paceline.learning.segments import copy_of
from paceline.learning.vectors import Layout
from paceline.topologies.parallel import Surroundings, hosted, in_place
from paceline.topologies.split import Source, SourceOptions, Trunk, reach_trunk, view_of
from paceline.topologies.split.agendas import agenda
from tests.topologies.split.runs import CUT, WIDTH, small_plan


class Instant(Engine):
    """Takes no time."""

    async def _run(self, work, operations):
        return work()


class Table:
    """A trunk to call by hand: two steps an epoch, one part to test, and a copy."""

    def __init__(self, make=Trunk, **rules):
        self._make = make
        self.plan = small_plan(**{"num_samples": 64, "num_test_samples": 40, "sources": 2, "epochs": 2, **rules})
        self.told = []
        self._network = MemoryNetwork()
        self._url = None

    def play(self, main):
        """Run `main` while the trunk runs; returns the trunk, which must have come to its end."""
        return virtual_loop.run(self._play(main))

    async def _play(self, main):
        around = Surroundings(emit=self.told.append, aside=in_place, clock="virtual")
        meter = ModelledMeter(PowerModel(), asyncio.get_running_loop().time)
        trunk = self._make(self.plan, Instant(), around, lambda clock: meter)
        transport = self._network.host("trunk")
        async with hosted(trunk, self.plan.max_message_bytes, transport=transport) as address:
            self._url = str(address)
            running = asyncio.ensure_future(trunk.run())
            try:
                acting = asyncio.ensure_future(main())
                await asyncio.wait((running, acting), return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()  # raises what went wrong: else the others would wait for ever
                await acting
                await asyncio.wait((running,), timeout=60)
                assert running.done(), "the run goes on, and nobody is there"
                running.result()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        return trunk

    def source(self, name, loses_reply=lambda request: False):
        """A source that has not joined yet."""

        def fate(request):
            return Fault.LOSE_REPLY if loses_reply(request) else Fault.NONE

        transport = FaultyTransport(self._network.host(name), plan=fate)
        return Hand(reach_trunk(self._url, transport=transport), name, self.plan)

    def real_source(self, name, told, **options):
        """A source that plays by itself, and the link that it has; what it tells goes to `told`."""
        link = FaultyTransport(self._network.host(name), Link(latency_seconds=0.05))
        transport = CountedTransport(link)
        source = Source(
            reach_trunk(self._url, transport=transport),
            transport,
            name,
            Instant(),
            lambda clock: ModelledMeter(PowerModel(), clock),
            emit=told.append,
            options=SourceOptions(load=lambda terms, number: view_of(self.plan.dataset, terms, number), **options),
        )
        return source, link

    def of(self, kind):
        return [event for event in self.told if isinstance(event, kind)]


class Hand:
    """A source, call by call."""

    def __init__(self, trunk, name, plan):
        self.trunk = trunk
        self.name = name
        self._plan = plan
        self._terms = plan.terms(1, (CUT,))
        self.session = ""

    async def join(self, version=paceline.__version__):
        welcome = await self.trunk.join.coro(self.name, version)
        self.session = welcome.session
        return welcome

    async def next_epoch(self, after=0):
        return await self.trunk.next_epoch.coro(self.session, after)

    async def bring(self, epoch, index, tensors=...):
        """Bring what belongs there, or something else."""
        tensors = self.content(epoch, index) if tensors is ... else tensors
        return await self.trunk.bring.coro(self.session, epoch, index, tensors)

    def content(self, epoch, index):
        phase, _ = agenda(self._terms, epoch)[index]
        if phase == "backup":
            return {kind: vector + len(self.name) for kind, vector in self.branch().items()}
        return {"values": torch.ones(32 if phase == "step" else 40, WIDTH)}

    def branch(self):
        """The initial parameters of a branch, as they travel."""
        state = copy_of(self._plan.chain().before(CUT))
        return Layout(state).pack(state)

    async def attend(self, epoch, first=0):
        """All meetings of an epoch from here on."""
        for index in range(first, len(agenda(self._terms, epoch))):
            assert (await self.bring(epoch, index)).status == "ready"

    async def take_part(self, after=0):
        """All that is left."""
        while (ticket := await self.next_epoch(after)).status != "over":
            if ticket.status == "open":
                await self.attend(ticket.epoch, ticket.index)
                after = ticket.epoch
        return ticket


async def together(*coroutines):
    """Have all done at once; returns what came of each."""
    return await asyncio.gather(*coroutines)


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
