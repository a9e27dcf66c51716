"""Peers over HTTP that share their figures in a real Redis, which is killed in the middle of a run, and comes back."""

import asyncio

from paceline.allocation import EdgeGossipAllocation
from paceline.topologies.base import Contact, DeviceOptions, Node, serving
from paceline.topologies.gossip import stores
from paceline.topologies.gossip.events import EpochEnded, PeerEnded, StoreBack, StoreLost
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.peer import Peer
from paceline.topologies.gossip.peer_data import Holding
from paceline.topologies.gossip.topology import GossipPlan
from tests.topologies.gossip.swarm import DriftingJob, DriftingMachine, shard

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


async def take_part(name, contacts, server, emit, listening):
    """Be a peer; puts its address into `listening`."""
    node = Node(
        name=name,
        contacts=contacts,
        machine=DriftingMachine(1, SPEEDS[name]),
        options=DeviceOptions(store_url=server.url),
        emit=emit,
    )
    prepared = DriftingJob(JOB)
    peer = Peer(prepared, node, Holding(shard(NUM_SAMPLES)))
    async with serving(peer, GossipPlan(prepared), name, host="127.0.0.1", port=0) as address:
        listening.set_result(address)
        await peer.run(address)


async def play(server, on_event):
    """All peers, to the end."""
    loop, contacts, runs = asyncio.get_running_loop(), [], []
    for name in SPEEDS:
        listening = loop.create_future()
        runs.append(asyncio.ensure_future(take_part(name, contacts, server, on_event, listening)))
        contacts = [Contact(await listening)]
    await asyncio.gather(*runs)


def test_peers_go_on_without_redis_and_use_it_when_it_is_back(redis_server, monkeypatch):
    monkeypatch.setattr(stores.FallbackStore.__init__, "__kwdefaults__", {"retry_seconds": 0.3})
    reported, lost = [], set()

    def on_event(event):
        reported.append(event)
        if isinstance(event, EpochEnded) and event.epoch == 3 and not lost:
            lost.add("killed")
            redis_server.kill()
        if isinstance(event, EpochEnded) and event.epoch == 7 and "started" not in lost:
            lost.add("started")
            redis_server.start()

    asyncio.run(play(redis_server, on_event))
    assert {event.averaged for event in reported if isinstance(event, PeerEnded)} == {("a", "b", "c")}
    outages = [event for event in reported if isinstance(event, StoreLost)]
    assert {event.learner for event in outages} == set(SPEEDS)
    assert all("Redis" in event.store and event.reason for event in outages)
    assert {event.learner for event in reported if isinstance(event, StoreBack)} == set(SPEEDS)
    epochs = [event for event in reported if isinstance(event, EpochEnded)]
    assert len(epochs) == EPOCHS * len(SPEEDS)
    without = [event for event in epochs if event.learner == "c" and 4 < event.epoch < 7]
    assert without  # balanced as before, by what peers send each other
    assert all(0.1 < event.ratio < 0.6 for event in without)
