"""Peers over HTTP that share their figures in a real Redis, which is killed in the middle of a run, and comes back."""

import asyncio
import contextlib

import numpy as np

from paceline.allocation import EdgeGossipAllocation
from paceline.learning.shards import Shard
from paceline.topologies.gossip import GossipJob, Holding, Known, Peer, PeerOptions, hosted, stores
from paceline.topologies.gossip.events import EpochEnded, StoreBack, StoreLost
from paceline.topologies.gossip.redis_store import RedisStore
from tests.topologies.gossip.swarm import DriftingTrainer

SPEEDS = {"a": 2000.0, "b": 2000.0, "c": 500.0}
NUM_SAMPLES = 400
EPOCHS = 12
JOB = GossipJob(
    epochs=EPOCHS,
    graph="full",
    batch_size=16,
    min_peers=len(SPEEDS),
    probe_seconds=0.2,
    evaluate_samples=0,
    allocation=EdgeGossipAllocation(),
)


async def take_part(name, known, server, emit, listening):
    """Be a peer; tells its address to `listening`."""
    store = RedisStore(server.url, JOB.fingerprint, timeout_seconds=1.0)
    peer = Peer(
        JOB,
        name,
        Holding(Shard(np.zeros((NUM_SAMPLES, 1), np.float32), np.zeros(NUM_SAMPLES, np.int64))),
        DriftingTrainer(1, SPEEDS[name]),
        emit=emit,
        options=PeerOptions(known=known, store=store),
    )
    async with contextlib.aclosing(store), hosted(peer, 1 << 16, host="127.0.0.1", port=0) as address:
        listening.set_result(str(address))
        return await peer.run(str(address))


async def play(server, on_event):
    """All peers, to the end."""
    loop, known, runs = asyncio.get_running_loop(), [], []
    for name in SPEEDS:
        listening = loop.create_future()
        runs.append(asyncio.ensure_future(take_part(name, known, server, on_event, listening)))
        known = [Known(await listening)]
    return await asyncio.gather(*runs)


def test_peers_go_on_without_redis_and_use_it_when_it_is_back(redis_server, monkeypatch):
    monkeypatch.setattr(stores.FallbackStore.__init__, "__kwdefaults__", {"retry_seconds": 0.3})
    told, lost = [], set()

    def on_event(event):
        told.append(event)
        if isinstance(event, EpochEnded) and event.epoch == 3 and not lost:
            lost.add("killed")
            redis_server.kill()
        if isinstance(event, EpochEnded) and event.epoch == 7 and "started" not in lost:
            lost.add("started")
            redis_server.start()

    results = asyncio.run(play(redis_server, on_event))
    assert {result.averaged for result in results} == {("a", "b", "c")}
    outages = [event for event in told if isinstance(event, StoreLost)]
    assert {event.learner for event in outages} == set(SPEEDS)
    assert all("Redis" in event.store and event.reason for event in outages)
    assert {event.learner for event in told if isinstance(event, StoreBack)} == set(SPEEDS)
    epochs = [event for event in told if isinstance(event, EpochEnded)]
    assert len(epochs) == EPOCHS * len(SPEEDS)
    without = [event for event in epochs if event.learner == "c" and 4 < event.epoch < 7]
    assert without  # balanced as before, by what peers tell each other
    assert all(0.1 < event.ratio < 0.6 for event in without)
