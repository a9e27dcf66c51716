"""The figures of a gossip run: what its peers, its epochs and the whole came to, as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.events import Event, Phase
from paceline.monitor.figures import Presence
from paceline.monitor.footprint import Footprint
from paceline.topologies.gossip.events import (
    ConsensusMeasured,
    DataMissing,
    EpochEnded,
    GossipEnded,
    GossipStarted,
    PartTakenOver,
    PeerEnded,
    PointsMade,
)


class PhaseSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A time that a peer spent on one thing, in seconds of the run; epoch 0 is before the first."""

    phase: Phase
    epoch: int
    start: float
    end: float


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A time for which a peer could not reach the shared store; `end` is None if it never did again."""

    learner: str
    store: str
    reason: str
    start: float
    end: float | None


class PeerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer did.

    Attributes:
        own_samples: that it has; None if it did not tell, as one that only others told of.
        epochs: as it ended them.
        presences: in order; more than one if it came back.
        phases: in order.
        points: the aggregated points of its data; None if it has none.
        num_samples: trained in all epochs.
        mean_ratio: of its data, that it was to train; the mean of its epochs, as are the seconds. None without any.
        mean_seconds: from the end of an epoch to that of the next.
        footprint: what its epochs used up, as far as told.
        power: what its energy is told by, as `PeerStarted` has it; None if not told.
        loss: of its own model, the last known.
        lost_because: why others took it for gone, if it did not come back; None if it was there to the end.
        ended: None if it was not told.
    """

    name: str
    own_samples: int | None
    epochs: tuple[EpochEnded, ...]
    presences: tuple[Presence, ...]
    phases: tuple[PhaseSpan, ...]
    points: PointsMade | None
    num_samples: int
    mean_ratio: float | None
    mean_seconds: float | None
    mean_train_seconds: float | None
    mean_rank_seconds: float | None
    mean_exchange_seconds: float | None
    footprint: Footprint
    power: dict[str, Any] | None
    loss: float | None
    accuracy: float | None
    lost_because: str | None
    ended: PeerEnded | None

    def reached_at(self, accuracy: float) -> float | None:
        """When its own model first had this accuracy, in seconds of the run; None if it never had."""
        return next((one.at for one in self.epochs if one.accuracy is not None and one.accuracy >= accuracy), None)


class EpochSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch of all peers that ended it.

    Attributes:
        ended_at: when the last of them did.
        mean_accuracy: of the peers' own models; None if not evaluated.
        consensus: of the average; None if nobody saw them all.
    """

    epoch: int
    ended_at: float
    num_learners: int
    num_samples: int
    mean_ratio: float
    mean_seconds: float
    max_seconds: float
    bytes_sent: int
    bytes_received: int
    mean_accuracy: float | None
    consensus: ConsensusMeasured | None


class GossipSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a gossip run came to.

    Attributes:
        started: None if nothing was recorded.
        ended: None for a run that is under way or was interrupted.
        peers: in the order in which they were first heard of.
        epochs: that any peer ended, in order.
        consensus: as it was measured.
        happenings: who came and went, what was taken over or missing, the store; each once, in order.
        num_lost: how often a peer was taken for gone before it had ended.
        num_joined: how often one came after the first epoch.
        taken_over: parts that others train.
        missing: data that nobody has a copy of.
        outages: of the shared store, by peer.
        seconds: from the start to the last event.
        mean_ratio: over all epochs of all peers, as is `mean_seconds`; None without any.
        footprint: of all peers that told theirs.
        loss: of the average, at the end or the last known; if it is not known, the mean of the last of the peers' own
            models, without those that are lost.
    """

    started: GossipStarted | None
    ended: GossipEnded | None
    peers: tuple[PeerSummary, ...]
    epochs: tuple[EpochSummary, ...]
    consensus: tuple[ConsensusMeasured, ...]
    happenings: tuple[Event, ...]
    num_lost: int
    num_joined: int
    taken_over: tuple[PartTakenOver, ...]
    missing: tuple[DataMissing, ...]
    outages: tuple[Outage, ...]
    seconds: float
    num_samples: int
    mean_ratio: float | None
    mean_seconds: float | None
    footprint: Footprint
    loss: float | None
    accuracy: float | None

    def average_seconds_to(self, accuracy: float) -> float | None:
        """From the start until the average of all peers first had this accuracy; None if it never had."""
        reached = (one.at for one in self.consensus if one.accuracy is not None and one.accuracy >= accuracy)
        at = next(reached, None)
        return None if at is None else at - self._start

    def median_seconds_to(self, accuracy: float) -> float | None:
        """From the start until half of all peers that trained had reached this accuracy; None if fewer ever did."""
        trained = [peer for peer in self.peers if peer.epochs]
        reached = sorted(at for at in (peer.reached_at(accuracy) for peer in trained) if at is not None)
        middle = (len(trained) - 1) // 2  # whoever never did comes after all that did
        return reached[middle] - self._start if 0 <= middle < len(reached) else None

    @property
    def _start(self) -> float:
        return self.started.at if self.started else 0.0
