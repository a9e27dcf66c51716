"""A gossip run that never was: peers of unequal speed, one that dies, one that joins late, and a store that fails."""

from __future__ import annotations

import msgspec

from paceline.topologies.events import PhaseStarted
from paceline.topologies.gossip.events import (
    ConsensusMeasured,
    DataMissing,
    EpochEnded,
    GossipEnded,
    GossipStarted,
    PartTakenOver,
    PeerEnded,
    PeerLost,
    PeerSeen,
    PeerStarted,
    PointsMade,
    StoreBack,
    StoreLost,
)
from tests.report.synthetic import POWER, record

JOB = {
    "gossip": {"exchange": "mixing", "graph": "ring", "epochs": 6, "seed": 3},
    "model": {"name": "two-nn"},
    "data": {"name": "digits"},
    "allocation": {"policy": "edge-gossip", "min_samples_per_second": 0.001, "max_failed": 0.1},
}
MODEL_BYTES = 40_000
OWN_SAMPLES = 500


def accuracy_after(epoch, head_start=0.0):
    return round(0.95 - 0.7 * 0.6**epoch + head_start, 4)


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that never was.

    Attributes:
        head_start: of its accuracy, before the average.
        first: epoch.
        last: the one in which it dies, if it does.
    """

    name: str
    samples_per_second: float
    head_start: float = -0.05
    first: int = 1
    last: int | None = None


FLEET = (
    Peer(name="jetson", samples_per_second=100.0),
    Peer(name="pi-4", samples_per_second=50.0, head_start=-0.1),
    Peer(name="pi-zero", samples_per_second=12.5, head_start=-0.2),
    Peer(name="laptop", samples_per_second=80.0, last=4),
    Peer(name="late", samples_per_second=50.0, first=4, head_start=-0.12),
)


def phase(peer, at, epoch, name):
    return PhaseStarted(at=at, learner=peer.name, round=epoch, phase=name)


def epoch_of(peer, epoch, start):
    """An epoch of 5 s of training, 0.5 s of ranking, and 0.5 s of exchange for all."""
    ratio, accuracy = peer.samples_per_second / 100.0, accuracy_after(epoch, peer.head_start)
    seconds = {"seconds": 6.0, "train_seconds": 5.0, "rank_seconds": 0.5, "exchange_seconds": 0.5, "cpu_seconds": 5.5}
    trained = {"num_samples": round(ratio * OWN_SAMPLES), "samples_per_second": peer.samples_per_second, "ratio": ratio}
    used = {"bytes_sent": 2 * MODEL_BYTES, "bytes_received": 2 * MODEL_BYTES, "joules": 11.0}
    there = [one.name for one in FLEET if one.first <= epoch <= (one.last or epoch)]
    if peer.name not in there:
        there.append(peer.name)  # of another fleet
    place = there.index(peer.name)
    heard = (there[place - 1], there[(place + 1) % len(there)])
    result = {
        "num_exchanges": 2,
        "heard": heard,
        "distance": 0.1,
        "loss": 1 - accuracy,
        "metrics": {"accuracy": accuracy},
    }
    return [
        phase(peer, start, epoch, "rank"),
        phase(peer, start + 0.5, epoch, "train"),
        phase(peer, start + 5.5, epoch, "exchange"),
        EpochEnded(at=start + 6.0, learner=peer.name, epoch=epoch, **seconds, **trained, **used, **result),
    ]


def start_of(peer, at):
    more = {"address": f"http://{peer.name}", "epoch": peer.first, "num_samples": OWN_SAMPLES, "power": POWER}
    return [
        phase(peer, at - 2.0, 0, "benchmark"),
        phase(peer, at - 1.0, 0, "aggregate"),
        PointsMade(at=at - 0.5, learner=peer.name, num_points=50, num_samples=OWN_SAMPLES, seconds=0.5),
        phase(peer, at - 0.5, 0, "idle"),
        PeerStarted(at=at, learner=peer.name, **more),
    ]


def gossip_events():
    """Epochs of 6 s from 3 s on, all in step.

    A peer that dies does so in the middle of an epoch, and others miss it 4 s later. In epoch 5, jetson trains its
    part; what another had is missing. The store is away from 10 s to 20 s.
    """
    events = [
        GossipStarted(
            at=0.0, job=JOB, clock="virtual", metric_names=("accuracy",), num_parameters=10_000, paceline="0.2.0"
        )
    ]
    begin, epochs, living = 3.0, 6, [one.name for one in FLEET if one.last is None]
    for peer in FLEET:
        start = begin + 6.0 * (peer.first - 1)
        events += start_of(peer, start)
        others = [other.name for other in FLEET if other.name != peer.name]
        events += [PeerSeen(at=start - 2.0, learner=name, other=peer.name) for name in others]
        last = epochs if peer.last is None else peer.last - 1
        for epoch in range(peer.first, last + 1):
            events += epoch_of(peer, epoch, begin + 6.0 * (epoch - 1))
        if peer.last is not None:
            died = begin + 6.0 * (peer.last - 1) + 1.0
            events.append(phase(peer, died - 0.5, peer.last, "train"))
            for index, other in enumerate(FLEET):
                if other.last is None:
                    why = {"other": peer.name, "reason": "it did not answer"}
                    events.append(PeerLost(at=died + 4.0 + index, learner=other.name, **why))
            part = {"other": peer.name, "epoch": peer.last + 1, "num_samples": 500}
            events.append(PartTakenOver(at=died + 5.0, learner="jetson", **part))
        else:
            ended = begin + 6.0 * epochs + 0.5
            result = {"reason": "epochs done", "averaged": tuple(living), "loss": 0.1, "metrics": {"accuracy": 0.93}}
            events.append(PeerEnded(at=ended, learner=peer.name, epochs=epochs - peer.first + 1, **result))
            why = {"other": peer.name, "reason": "it said goodbye"}
            events += [PeerLost(at=ended + 0.5, learner=name, **why) for name in living if name != peer.name]
    for peer in FLEET[:2]:
        events.append(StoreLost(at=10.0, learner=peer.name, store="redis://shelf", reason="connection refused"))
        events.append(StoreBack(at=20.0, learner=peer.name, store="redis://shelf"))
        missing = {"others": ("old",), "share_failed": 0.25, "num_samples": 700}
        events.append(DataMissing(at=28.0, learner=peer.name, epoch=5, **missing))
    for epoch in range(1, epochs + 1):
        at = begin + 6.0 * epoch - 0.1  # just before the last has ended it
        count = sum(one.first <= epoch and (one.last is None or epoch < one.last) for one in FLEET)
        result = {"loss": 1 - accuracy_after(epoch), "metrics": {"accuracy": accuracy_after(epoch)}}
        events.append(
            ConsensusMeasured(at=at, number=epoch, epoch=epoch, num_learners=count, distance=0.2 * 0.5**epoch, **result)
        )
    end = begin + 6.0 * epochs + 2.0
    events.append(GossipEnded(at=end, averaged=tuple(living), loss=0.09, metrics={"accuracy": 0.931}))
    return sorted(events, key=lambda event: event.at)


def record_gossip(root):
    """Keep a gossip run in a folder; gives it, closed."""
    return record(root, "shelf", JOB, gossip_events())
