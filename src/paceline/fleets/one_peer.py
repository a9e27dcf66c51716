"""One peer in this process, in real time: what a device runs to take part in training without a server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.axon.transports import FaultyTransport, HttpTransport, Link, Transport
from paceline.devices.contention import (
    ContentionMonitor,
    ContentionPredictor,
    Predictor,
    RecentPredictor,
    load_profile,
)
from paceline.devices.energy import MakeMeter, Meter, PowerModel, ProcessMeter
from paceline.fleets.live import Door, run_live
from paceline.fleets.peers import GossipLaunch, PeerFleet
from paceline.learning.trainers import ThreadTrainer
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Vectors
from paceline.topologies.events import PeerListening
from paceline.topologies.gossip import Access, Concluded, GossipPlan, Holding, Known, Peer, PeerOptions, hosted
from paceline.topologies.gossip.members import check_name
from paceline.topologies.gossip.redis_store import RedisStore
from paceline.topologies.gossip.stores import Store


@dataclass(frozen=True, kw_only=True)
class Station:
    """Where and how a peer takes part; `ConfigError` for a name that none can have.

    Attributes:
        door: where others call it; they all show the same token.
        known: others to join.
        address: by which others reach it; where it listens, if None.
        ca_file: authorities that signed the certificates of others, if these are not self-made.
        link: that its calls are held back to, as a trial; None for what there is.
        slowdown: trains so many times slower than this device can.
        store_url: of the Redis server where figures are shared; None to share them by gossip.
        profile: a file that tells how this device slows down beside others; None to go by past epochs.
        make_meter: makes what tells its energy.
    """

    name: str
    door: Door
    known: Sequence[Known] = ()
    address: str | None = None
    ca_file: str | None = None
    link: Link | None = None
    slowdown: float = 1.0
    store_url: str | None = None
    profile: Path | None = None
    make_meter: MakeMeter = lambda clock: ProcessMeter(PowerModel(), clock)

    def __post_init__(self) -> None:
        check_name(self.name)


class OnePeer(PeerFleet):
    """A peer on this device; the others are elsewhere.

    Args:
        hold: tells which data it has.
        announce: told where others reach it.
        watch_points: see `ThreadTrainer`.
    """

    clock = "live"

    def __init__(
        self,
        station: Station,
        hold: Callable[[GossipPlan], Holding],
        announce: Callable[[str], None] = lambda address: None,
        watch_points: Callable[[int, int], None] = lambda num_done, num_classes: None,
    ) -> None:
        self._station = station
        self._hold = hold
        self._announce = announce
        self._watch_points = watch_points

    def run(self, launch: GossipLaunch) -> Concluded:
        return run_live(self._run(launch))

    async def _run(self, launch: GossipLaunch) -> Concluded:
        with contextlib.closing(self._station.make_meter(asyncio.get_running_loop().time)) as meter:
            return await self._play(launch, meter)

    async def _play(self, launch: GossipLaunch, meter: Meter) -> Concluded:
        station, plan = self._station, launch.plan
        transport: Transport = HttpTransport()
        if station.link is not None:
            transport = FaultyTransport(transport, station.link)
        identity = station.door.identity
        started = asyncio.get_running_loop().time()

        async def evaluate(parameters: Vectors, num_samples: int) -> tuple[float, float]:
            return await asyncio.to_thread(plan.evaluate, parameters, num_samples)

        async with self._tools(plan) as (predictor, store):
            peer = Peer(
                plan.job,
                station.name,
                self._hold(plan),
                ThreadTrainer(LocalModel(plan.task, allowed=None), station.slowdown, watch_points=self._watch_points),
                access=Access(transport=transport, token=station.door.token, ca_file=station.ca_file),
                emit=launch.emit,
                options=PeerOptions(
                    known=station.known,
                    fingerprint=None if identity is None else identity.fingerprint,
                    life=time.time_ns(),
                    predictor=predictor,
                    store=store,
                    evaluate=evaluate,
                    meter=meter,
                ),
            )
            door = {name: getattr(station.door, name) for name in station.door.__dataclass_fields__}
            async with hosted(peer, plan.model_bytes, **door) as listening:
                address = station.address or str(listening)
                self._tell(launch, address, asyncio.get_running_loop().time() - started)
                try:
                    return await peer.run(address)
                finally:
                    await peer.leave()

    def _tell(self, launch: GossipLaunch, address: str, at: float) -> None:
        identity = self._station.door.identity
        fingerprint = None if identity is None else identity.fingerprint
        launch.emit(PeerListening(at=at, learner=self._station.name, address=address, fingerprint=fingerprint))
        self._announce(address if fingerprint is None else f"{address}#{fingerprint}")

    @contextlib.asynccontextmanager
    async def _tools(self, plan: GossipPlan) -> AsyncIterator[tuple[Predictor, Store | None]]:
        """What predicts this device's speed, and where figures are shared."""
        station = self._station
        store = None if station.store_url is None else RedisStore(station.store_url, plan.job.fingerprint)
        try:
            if station.profile is None:
                yield RecentPredictor(), store
                return
            profile = load_profile(station.profile)
            with ContentionMonitor() as monitor:
                yield ContentionPredictor(profile.seconds_per_sample, profile.slowdown, monitor.usage), store
        finally:
            if store is not None:
                await store.aclose()
