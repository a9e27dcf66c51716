"""What happens in a run without a server."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from paceline.learning.early_stopping import StopReason
from paceline.topologies.events import DeviceEvent, EpochEvent, Metrics, ResultEvent, StartEvent

PeerEndReason: TypeAlias = StopReason | Literal["epochs done", "stopped early"]
"""Reason why a peer trains no more."""

EndReason: TypeAlias = StopReason | Literal["epochs done", "stopped by a callback"]
"""Reason why training is over."""


class GossipStarted(StartEvent, frozen=True, tag="gossip_started"):
    """Training without a server begins, as whoever records it sees: a fleet, or a peer that is alone in its process.

    Attributes:
        num_parameters: number of parameters of the model.
    """

    num_parameters: int


class PeerStarted(EpochEvent, frozen=True, tag="peer_started"):
    """A peer takes part from an epoch on; events of peers are reported on the device only.

    Attributes:
        address: where others reach it.
        epoch: the first that it trains.
        num_samples: samples of its own.
        known: peers that it knew as it began.
        power: what its energy is computed from, as for `DeviceMeasured`; likewise `threads`,
            `device` and `precision`.
    """

    address: str
    num_samples: int
    known: tuple[str, ...] = ()
    power: dict[str, Any] | None = None
    threads: int | None = None
    device: str | None = None
    precision: str = "float32"


class PeerSeen(DeviceEvent, frozen=True, tag="peer_seen"):
    """A peer heard of another that takes part."""

    other: str


class PeerLost(DeviceEvent, frozen=True, tag="peer_lost"):
    """A peer takes another for gone: it said goodbye, or nobody hears of it."""

    other: str
    reason: str


class RelayFound(DeviceEvent, frozen=True, tag="relay_found"):
    """A peer that cannot be called takes its calls at another one from now on.

    Attributes:
        address: where that is called.
    """

    relay: str
    address: str


class PointsMade(DeviceEvent, frozen=True, tag="points_made"):
    """A peer has the aggregated points of its data.

    Attributes:
        num_samples: samples that they stand for.
        is_cached: whether they were found ready.
    """

    num_points: int
    num_samples: int
    seconds: float
    is_cached: bool = False


class EpochEnded(EpochEvent, frozen=True, tag="epoch_ended"):
    """A peer trained an epoch, and exchanged what it learned.

    Attributes:
        seconds: time from the end of the last one; those of the parts are of this peer, waiting for others is in
            `exchange_seconds`.
        num_samples: samples trained.
        ratio: part of its data that it was to train.
        samples_per_second: speed that it expected of itself.
        num_exchanges: models that it took from others and mixed with its own.
        heard: whose they are, each once.
        distance: between its model before and after mixing, over the length of what it learned in the epoch.
        mass: push-sum weight of its model, as a ratio of what a peer starts with; 0 in mixing.
        cpu_seconds: processor time, testing included, and energy in `joules`; None if nobody metered.
        loss: loss of its own model on the test data, None if not evaluated; likewise `metrics`.
    """

    seconds: float
    num_samples: int
    ratio: float
    samples_per_second: float
    train_seconds: float
    rank_seconds: float = 0.0
    exchange_seconds: float = 0.0
    num_exchanges: int = 0
    heard: tuple[str, ...] = ()
    bytes_sent: int = 0
    bytes_received: int = 0
    distance: float = 0.0
    mass: float = 0.0
    cpu_seconds: float | None = None
    joules: float | None = None
    loss: float | None = None
    metrics: Metrics = msgspec.field(default_factory=dict)


class PartTakenOver(EpochEvent, frozen=True, tag="part_taken_over"):
    """A peer trains the data of another that is gone, which it has a copy of, from an epoch on."""

    other: str
    num_samples: int


class DataMissing(EpochEvent, frozen=True, tag="data_missing"):
    """More peers than is allowed have failed, and nobody has a copy of what they trained; it goes on without.

    Attributes:
        others: peers whose data it is.
        share_failed: part of all peers that failed.
        num_samples: samples that are missing.
    """

    others: tuple[str, ...]
    share_failed: float
    num_samples: int


class StoreLost(DeviceEvent, frozen=True, tag="store_lost"):
    """A peer cannot reach the shared store of figures, and uses those that peers send each other."""

    store: str
    reason: str


class StoreBack(DeviceEvent, frozen=True, tag="store_back"):
    """A peer reaches the shared store again."""

    store: str


class ConsensusMeasured(ResultEvent, frozen=True, tag="consensus_measured"):
    """How far peers are apart after an epoch, where a fleet sees them all.

    Attributes:
        number: counts from 1; what peers need to go on from that moment is kept under it.
        epoch: the mean of the peers' epochs, which need not grow.
        distance: the root of the mean squared distance from their average, over the length of that.
        loss: loss of the average on the test data; None if not evaluated.
    """

    number: int
    epoch: int
    num_learners: int
    distance: float


class PeerEnded(DeviceEvent, frozen=True, tag="peer_ended"):
    """A peer is done.

    Attributes:
        epochs: number of epochs that it trained.
        averaged: the living peers whose models make up its final one, its own included.
        loss: loss of that one; likewise `metrics`.
    """

    reason: PeerEndReason
    epochs: int
    averaged: tuple[str, ...] = ()
    loss: float | None = None
    metrics: Metrics = msgspec.field(default_factory=dict)


class GossipEnded(ResultEvent, frozen=True, tag="gossip_ended"):
    """Training without a server is over, as far as whoever records it sees.

    Attributes:
        averaged: the living peers whose models make up the final one.
        loss: loss of that one; likewise `metrics`.
    """

    averaged: tuple[str, ...]
    reason: EndReason = "epochs done"
