"""Sources and trunk of a split job on virtual time: the same ones, in one process, with modelled speeds and links."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import torch

from paceline.axon import loops
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.energy import ModelledMeter, PowerModel
from paceline.errors import ConfigError, PacelineError
from paceline.events import Event
from paceline.fleets import virtual_loop
from paceline.fleets.base import SplitLaunch
from paceline.fleets.modelled import Condition, VirtualDevice
from paceline.learning.engines import Engine
from paceline.learning.segments import operations_of
from paceline.topologies.parallel import Surroundings, hosted, in_place
from paceline.topologies.parallel.hosting import DEVICE
from paceline.topologies.split import Source, SourceOptions, Trunk, reach_trunk, view_of

T = TypeVar("T")


class VirtualNodes:
    """Modelled devices that train a split job: the one that is the trunk, and sources.

    Args:
        devices: as in a fleet file. If none of them is the trunk, the trunk's work takes no time.
    """

    clock = "virtual"

    def __init__(self, devices: Sequence[VirtualDevice]) -> None:
        singles = [single for device in devices for single in device.each()]
        self.sources = [device for device in singles if not device.is_trunk]
        trunks = [device for device in singles if device.is_trunk]
        if len(trunks) > 1:
            raise ConfigError(f"{len(trunks)} devices have is_trunk; a model has one trunk")
        self._trunk = trunks[0] if trunks else None

    def run(self, launch: SplitLaunch) -> Trunk:
        """Train all epochs; blocks until the run is over, and returns its trunk."""
        torch.manual_seed(launch.seed)  # dropout and the like draw from there
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums come out the same on any number of cores
        try:
            trunk: Trunk = virtual_loop.run(self._run(launch))
        finally:
            gc.collect()  # what a run leaves refers to itself, and holds all models
            torch.set_num_threads(num_threads)
        return trunk

    async def _run(self, launch: SplitLaunch) -> Trunk:
        least = launch.min_learners
        if len(self.sources) < least:
            raise ConfigError(f"the fleet has {len(self.sources)} sources; the job begins with {least}")
        network, plan = MemoryNetwork(), launch.plan
        ground = _Ground(launch, network, operations_of(plan.chain(), plan.task.input_shape).train)
        engine: ModelledEngine | _Instant = _Instant()
        link = None
        if self._trunk is not None:
            transport = network.host(DEVICE, self._trunk.link(launch.seed))
            link = transport
            engine = ground.engine(self._trunk, Condition(self._trunk, transport.line, random.Random(launch.seed)), 0)
        around = Surroundings(aside=in_place, clock="virtual")
        trunk = launch.trunk(around, engine, lambda clock: engine.meter)
        async with hosted(trunk, launch.max_model_bytes, transport=link or network.host(DEVICE)) as address:
            lives = [
                asyncio.ensure_future(self._live(device, number, str(address), ground))
                for number, device in enumerate(self.sources, 1)
            ]
            try:
                await _unless_all_end(lives, asyncio.ensure_future(trunk.run()))
                await trunk.farewell()
            finally:
                for life in lives:
                    life.cancel()
                await asyncio.gather(*lives, return_exceptions=True)
        return trunk

    async def _live(self, device: VirtualDevice, number: int, url: str, ground: _Ground) -> None:
        """A source from when it joins until the run is over, or it dies or leaves for good."""
        launch, loop = ground.launch, asyncio.get_running_loop()
        seed = launch.seed * 1_000_003 + number
        await asyncio.sleep(device.joins_at_seconds)
        while True:
            transport = ground.network.host(device.name, device.link(seed))
            counted = CountedTransport(transport)
            engine = ground.engine(device, Condition(device, transport.line, random.Random(seed)), seed)

            def emit(event: Event) -> None:
                launch.emit(msgspec.structs.replace(event, at=loop.time()))  # of the run, not of this life

            source = Source(
                reach_trunk(url, transport=counted),
                counted,
                device.name,
                engine,
                lambda clock, meter=engine.meter: meter,  # type: ignore[misc]
                emit=emit,
                options=SourceOptions(
                    allowed=None, load=lambda terms, number: view_of(launch.plan.dataset, terms, number)
                ),
            )
            try:
                await loops.within(_until(device.dies_at_seconds), _until_it_leaves(source, device))
                return
            except asyncio.TimeoutError:
                transport.line.cut()  # it vanishes without a word
            returns_in = _until(device.returns_at_seconds)
            if returns_in is None:
                return
            await asyncio.sleep(returns_in)


class ModelledEngine(Engine):
    """Takes the time that a device would take for the operations, on the loop's clock; the work itself is real.

    Args:
        operations_per_second: of the device when it has nothing else to do.
        condition: of the device; what it leaves of the speed.
        seed: of the noise.
    """

    def __init__(self, operations_per_second: float, condition: Condition, meter: ModelledMeter, seed: int) -> None:
        super().__init__()
        self.meter = meter
        self._per_second = operations_per_second
        self._condition = condition
        self._chance = random.Random(seed)

    async def rehearse(self, work: Callable[[], object], operations: float) -> None:
        """Take the time of it, and no more."""
        await self.run(lambda: None, operations)

    async def _run(self, work: Callable[[], T], operations: float) -> T:
        result = work()
        seconds = operations / self._condition.pace(self._per_second, self._chance)
        self.meter.work(seconds * self._condition.device.cpu_share * self._condition.speed)
        await asyncio.sleep(seconds)
        return result


class _Instant(Engine):
    """Takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = ModelledMeter(PowerModel(), asyncio.get_running_loop().time)

    async def _run(self, work: Callable[[], T], operations: float) -> T:
        return work()


class _Ground(NamedTuple):
    """What all devices of a run have in common.

    Attributes:
        operations: to train the whole model on one sample, which is what a device's speed is told of.
    """

    launch: SplitLaunch
    network: MemoryNetwork
    operations: float

    def engine(self, device: VirtualDevice, condition: Condition, seed: int) -> ModelledEngine:
        """Of a device."""
        meter = ModelledMeter(device.power, asyncio.get_running_loop().time)
        return ModelledEngine(device.speed("") * self.operations, condition, meter, seed)


async def _until_it_leaves(source: Source, device: VirtualDevice) -> None:
    leaves_in = _until(device.leaves_at_seconds)
    try:
        await loops.within(leaves_in, source.run())
    except asyncio.TimeoutError:
        await source.leave()


async def _unless_all_end(lives: Sequence[asyncio.Future[None]], running: asyncio.Future[None]) -> None:
    """Wait for the trunk, unless a source fails by a mistake of its own, or none is left: both are raised."""
    try:
        left: set[asyncio.Future[None]] = {running, *lives}
        while not running.done():
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for life in done - {running}:
                life.result()
            if left == {running} and not running.done():
                raise PacelineError("no source is left: all of them died or left")
        running.result()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _until(at_seconds: float | None) -> float | None:
    """Seconds until a moment of virtual time; None if it is past, or was never set."""
    now = asyncio.get_running_loop().time()
    return at_seconds - now if at_seconds is not None and at_seconds > now else None
