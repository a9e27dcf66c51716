"""Peers on virtual time: the same ones, in one process, with modelled speeds and links."""

from __future__ import annotations

import asyncio
import gc
import math
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import torch

from paceline.axon import loops
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.energy import ModelledMeter
from paceline.errors import ConfigError, PacelineError
from paceline.events import Event
from paceline.fleets import virtual_loop
from paceline.fleets.devices import singles
from paceline.fleets.modelled import Condition, ModelledTrainer, VirtualDevice
from paceline.fleets.peers import GossipLaunch, PeerFleet
from paceline.learning.averaging import RunningAverage
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip import Access, Concluded, Holding, Known, Peer, PeerOptions, hosted
from paceline.topologies.gossip.events import ConsensusMeasured, PeerStarted

_NUM_KNOWN = 2  # others that each peer knows from the start


class VirtualPeers(PeerFleet):
    """Peers on modelled devices, on a clock that jumps to the next event.

    Args:
        devices: as in a fleet file.
        is_time_only: leave the gradients out, for large fleets.
    """

    clock = "virtual"

    def __init__(self, devices: Sequence[VirtualDevice], *, is_time_only: bool = False) -> None:
        self.devices = singles(devices)
        self.is_trained = not is_time_only

    def run(self, launch: GossipLaunch) -> Concluded:
        torch.manual_seed(launch.plan.job.seed)  # dropout and the like draw from there
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # faster for small models; and sums come out the same on any number of cores
        gc.freeze()
        try:
            concluded: Concluded = virtual_loop.run(self._run(launch))
        finally:
            gc.unfreeze()
            gc.collect()  # what a run leaves refers to itself, holds all models, and would stay for long
            torch.set_num_threads(num_threads)
        return concluded

    async def _run(self, launch: GossipLaunch) -> Concluded:
        job = launch.plan.job
        if len(self.devices) < job.min_peers:
            raise ConfigError(f"the fleet has {len(self.devices)} devices; the job's min_peers is {job.min_peers}")
        model = LocalModel(launch.plan.task, allowed=None)
        early = [device.name for device in self.devices if not device.joins_at_seconds]
        ground = _Ground(
            launch,
            MemoryNetwork(),
            launch.plan.holdings(len(self.devices)),
            model,
            model.parameters(),
            _Consensus(launch, early, is_evaluated=self.is_trained),
            {},
        )
        lives = [asyncio.ensure_future(self._live(number, ground)) for number in range(len(self.devices))]
        try:
            return await self._outcome(lives, ground)
        finally:
            for life in lives:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)

    async def _outcome(self, lives: Sequence[asyncio.Future[Concluded | None]], ground: _Ground) -> Concluded:
        """The model of whoever averaged most, when nobody trains any more; who would come later is not waited for."""
        least = ground.launch.plan.job.min_peers
        left = list(lives)
        while left:
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            left = [life for life in left if not life.done()]
            ended = [life.result() for life in lives if life.done()]  # raises what a device did wrong
            concluded = [result for result in ended if result is not None]
            if not ground.training and (concluded or len(left) < least):
                break
        if not concluded:
            raise PacelineError(
                f"{len(left)} of {len(lives)} devices are left, and the job's min_peers is {least}: "
                "the others died, or could not join"
            )
        return max(concluded, key=lambda result: len(result.averaged))

    async def _live(self, number: int, ground: _Ground) -> Concluded | None:
        """A device from when it joins until the run is over, or it dies for good."""
        device, loop = self.devices[number], asyncio.get_running_loop()
        await asyncio.sleep(device.joins_at_seconds)
        while True:
            dies_in = _until(device.dies_at_seconds)
            try:
                return await loops.within(dies_in, self._take_part(number, ground, round(loop.time() * 1e6) + 1))
            except asyncio.TimeoutError:
                ground.consensus.forget(device.name)
            except ConfigError:
                raise
            except PacelineError:  # nobody is there to join, or nobody to learn from: so it goes on a real device
                ground.consensus.forget(device.name)
                return None
            finally:
                ground.training.pop(device.name, None)
            if device.returns_at_seconds is None:
                return None
            await asyncio.sleep(max(0.0, device.returns_at_seconds - loop.time()))

    async def _take_part(self, number: int, ground: _Ground, life: int) -> Concluded:
        device, launch, loop = self.devices[number], ground.launch, asyncio.get_running_loop()
        seed = launch.plan.job.seed * 1_000_003 + number
        transport = ground.network.host(device.name, device.link(seed))
        condition = Condition(device, transport.line, random.Random(seed))
        model = ground.model if self.is_trained else None
        meter = ModelledMeter(device.power, loop.time)
        trainer = ModelledTrainer(launch.plan.task, ground.initial, model, condition, seed, meter)

        def emit(event: Event) -> None:
            if isinstance(event, PeerStarted):
                ground.training[device.name] = None
            launch.emit(msgspec.structs.replace(event, at=loop.time()))  # of the run, not of this life

        peer = Peer(
            launch.plan.job,
            device.name,
            ground.holdings[number],
            trainer,
            access=Access(transport=transport),
            emit=emit,
            options=PeerOptions(
                known=self._known(number),
                life=life,
                activity=condition,
                meter=meter,
                on_epoch=ground.consensus.tell,
            ),
        )
        async with hosted(peer, launch.plan.model_bytes, transport=transport, port=DEFAULT_PORT) as address:
            try:
                concluded = await peer.run(str(address))
                await peer.leave()
                return concluded
            except asyncio.CancelledError:
                transport.line.cut()  # it vanishes without a word
                raise

    def _known(self, number: int) -> list[Known]:
        """The first devices that are there now, but this one."""
        now = asyncio.get_running_loop().time()
        there = [device.name for device in self.devices if _is_there(device, now)]
        others = [name for name in there if name != self.devices[number].name][:_NUM_KNOWN]
        return [Known(f"http://{name}:{DEFAULT_PORT}") for name in others]


class _Consensus:
    """Compares the models of all peers whenever each has, on average, trained another epoch.

    Args:
        early: devices that are there from the start; it begins when each has trained an epoch, or is dead.
    """

    def __init__(self, launch: GossipLaunch, early: Iterable[str], *, is_evaluated: bool) -> None:
        self._launch = launch
        self._awaited = set(early)
        self._is_evaluated = is_evaluated
        self._newest: dict[str, Vectors] = {}
        self._ended: dict[str, int] = {}
        self._num_told = 0

    def tell(self, name: str, epoch: int, parameters: Vectors) -> None:
        """A peer has trained an epoch."""
        self._newest[name], self._ended[name] = parameters, epoch
        self._awaited.discard(name)
        self._num_told += 1
        if not self._awaited and self._num_told >= len(self._newest):
            self._num_told = 0
            self._measure(round(sum(self._ended.values()) / len(self._ended)))

    def forget(self, name: str) -> None:
        """A peer died."""
        self._newest.pop(name, None)
        self._ended.pop(name, None)
        self._awaited.discard(name)

    def _measure(self, epoch: int) -> None:
        average = RunningAverage()
        for parameters in self._newest.values():
            average.add(parameters, 1.0)
        mean = average.result(next(iter(self._newest.values())))
        squares = [_squared_distance(parameters, mean) for parameters in self._newest.values()]
        length = _squared_distance(mean, {kind: torch.zeros_like(vector) for kind, vector in mean.items()})
        loss, accuracy = self._launch.plan.evaluate(mean) if self._is_evaluated else (None, None)
        self._launch.emit(
            ConsensusMeasured(
                at=asyncio.get_running_loop().time(),
                epoch=epoch,
                num_learners=len(squares),
                distance=(sum(squares) / len(squares) / max(length, 1e-30)) ** 0.5,
                loss=loss,
                accuracy=accuracy,
            )
        )


class _Ground(NamedTuple):
    """What all devices of a run have in common.

    Attributes:
        training: the names of those that train, since they began.
    """

    launch: GossipLaunch
    network: MemoryNetwork
    holdings: Sequence[Holding]
    model: LocalModel
    initial: Vectors
    consensus: _Consensus
    training: dict[str, None]


def _squared_distance(one: Vectors, other: Vectors) -> float:
    return sum(float((one[kind] - other[kind]).square().sum()) for kind in one if one[kind].is_floating_point())


def _is_there(device: VirtualDevice, now: float) -> bool:
    """Whether a device takes part at a moment, as far as its file tells."""
    dies_at, returns_at = device.dies_at_seconds or math.inf, device.returns_at_seconds or math.inf
    return device.joins_at_seconds <= now and (now < dies_at or now > returns_at)


def _until(at_seconds: float | None) -> float | None:
    """Seconds until a moment of virtual time; None if it is past, or was never set."""
    now = asyncio.get_running_loop().time()
    return at_seconds - now if at_seconds is not None and at_seconds > now else None
