"""Sums up a gossip run: from the events of its peers to its figures, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from paceline.events import Event
from paceline.monitor.figures import Presence
from paceline.monitor.footprint import Footprint
from paceline.monitor.gossip_figures import EpochSummary, GossipSummary, Outage, PeerSummary, PhaseSpan
from paceline.monitor.gossip_news import News
from paceline.monitor.summary import mean
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


def summarise_gossip(recorded: Iterable[Event]) -> GossipSummary:
    """Sum up a gossip run, finished or not."""
    draft = _Draft()
    for event in recorded:
        draft.add(event)
    return draft.finish()


class _PeerDraft:
    """What a peer did, and since when it is there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.own_samples: int | None = None
        self.points: PointsMade | None = None
        self.power: dict[str, Any] | None = None
        self.ended: PeerEnded | None = None
        self.lost: PeerLost | None = None
        self._epochs: list[EpochEnded] = []
        self._presences: list[Presence] = []
        self._phases: list[PhaseSpan] = []
        self._since: float | None = None
        self._last_at: float | None = None  # that it told of itself
        self._phase: PhaseStarted | None = None

    def hear(self, at: float) -> None:
        """Another told of it; that counts as long as it tells nothing itself."""
        if self._last_at is None and (self._since is None or self.lost is not None):
            self._leave(at)
            self._since, self.lost = at, None

    def tell(self, event: PeerStarted | PhaseStarted | EpochEnded | PointsMade | PeerEnded) -> None:
        """What it told of itself."""
        if self._last_at is None:
            self._since = None
            self._presences.clear()
        match event:
            case PeerStarted():
                if self._since is not None:
                    self._leave(self._last_at or event.at)
                self._since, self.lost, self.ended = event.at, None, None
                self.own_samples, self.power = event.num_samples, event.power
            case PhaseStarted():
                self._end_phase(event.at)
                self._phase = event
            case EpochEnded():
                if self._phase is not None and self._phase.round <= event.epoch:
                    self._end_phase(event.at)  # what it does between epochs, it does not tell
                self._epochs.append(event)
            case PointsMade():
                self.points = event
            case PeerEnded():
                self._leave(event.at)
                self.ended = event
        self._last_at = event.at

    def _leave(self, at: float) -> None:
        """It was there up to this; or up to when it was missed, if it has not been heard of since."""
        if self.lost is not None and (self._last_at is None or self.lost.at >= self._last_at):
            at = self.lost.at
        self._end_phase(at)
        if self._since is not None:
            self._presences.append(Presence(start=self._since, end=max(at, self._since)))
        self._since = None

    def _end_phase(self, at: float) -> None:
        last, self._phase = self._phase, None
        if last is not None and at > last.at:
            self._phases.append(PhaseSpan(phase=last.phase, epoch=last.round, start=last.at, end=at))

    def finish(self, last_at: float) -> PeerSummary:
        self._leave(last_at)
        is_lost = self.ended is None and self.lost is not None and (self._last_at or 0.0) <= self.lost.at
        evaluated = [one for one in self._epochs if one.loss is not None or one.accuracy is not None]
        return PeerSummary(
            name=self.name,
            own_samples=self.own_samples,
            epochs=tuple(self._epochs),
            presences=tuple(self._presences),
            phases=tuple(self._phases),
            points=self.points,
            num_samples=sum(one.num_samples for one in self._epochs),
            mean_ratio=mean(one.ratio for one in self._epochs),
            mean_seconds=mean(one.seconds for one in self._epochs),
            mean_train_seconds=mean(one.train_seconds for one in self._epochs),
            mean_rank_seconds=mean(one.rank_seconds for one in self._epochs),
            mean_exchange_seconds=mean(one.exchange_seconds for one in self._epochs),
            footprint=Footprint.total(self._epochs),
            power=self.power,
            loss=evaluated[-1].loss if evaluated else None,
            accuracy=evaluated[-1].accuracy if evaluated else None,
            lost_because=self.lost.reason if is_lost and self.lost else None,
            ended=self.ended,
        )


class _Draft:
    """A summary in the making."""

    def __init__(self) -> None:
        self._started: GossipStarted | None = None
        self._ended: GossipEnded | None = None
        self._peers: dict[str, _PeerDraft] = {}
        self._epochs: dict[int, list[EpochEnded]] = {}
        self._consensus: list[ConsensusMeasured] = []
        self._news = News()
        self._happenings: list[Event] = []
        self._outages: dict[str, StoreLost] = {}
        self._over: list[Outage] = []
        self._num_joined = 0
        self._last_at = 0.0

    def _peer(self, name: str) -> _PeerDraft:
        draft = self._peers.get(name)
        if draft is None:
            draft = self._peers[name] = _PeerDraft(name)
        return draft

    def add(self, event: Event) -> None:
        self._last_at = max(self._last_at, event.at)
        if self._news.is_news(event):
            self._add_news(event)
        match event:  # the frequent ones first
            case PhaseStarted() | PointsMade() | PeerEnded():
                self._peer(event.learner).tell(event)
            case EpochEnded():
                self._peer(event.learner).tell(event)
                self._epochs.setdefault(event.epoch, []).append(event)
            case PeerStarted():
                self._peer(event.learner).tell(event)
                self._num_joined += event.epoch > 1
                for other in event.known:
                    self._peer(other).hear(event.at)
            case PeerSeen():
                self._peer(event.other).hear(event.at)
            case ConsensusMeasured():
                self._consensus.append(event)
            case StoreLost():
                self._outages.setdefault(event.learner, event)
            case StoreBack():
                self._end_outage(event.learner, event.at)
            case GossipStarted():
                self._started = event
            case GossipEnded():
                self._ended = event

    def _add_news(self, event: Event) -> None:
        self._happenings.append(event)
        if isinstance(event, PeerLost):
            self._peer(event.other).lost = event

    def _end_outage(self, name: str, at: float | None) -> None:
        lost = self._outages.pop(name, None)
        if lost is not None:
            self._over.append(Outage(learner=name, store=lost.store, reason=lost.reason, start=lost.at, end=at))

    def finish(self) -> GossipSummary:
        for name in list(self._outages):
            self._end_outage(name, None)
        peers = tuple(peer.finish(self._last_at) for peer in self._peers.values())
        consensus = {one.epoch: one for one in self._consensus}
        ended = [one for many in self._epochs.values() for one in many]
        loss, accuracy = self._result(peers)
        return GossipSummary(
            started=self._started,
            ended=self._ended,
            peers=peers,
            epochs=tuple(_epoch(self._epochs[epoch], consensus.get(epoch)) for epoch in sorted(self._epochs)),
            consensus=tuple(self._consensus),
            happenings=tuple(self._happenings),
            num_lost=sum(isinstance(event, PeerLost) for event in self._happenings),
            num_joined=self._num_joined,
            taken_over=tuple(event for event in self._happenings if isinstance(event, PartTakenOver)),
            missing=tuple(event for event in self._happenings if isinstance(event, DataMissing)),
            outages=tuple(sorted(self._over, key=lambda one: (one.start, one.learner))),
            seconds=self._last_at - (self._started.at if self._started else 0.0),
            num_samples=sum(peer.num_samples for peer in peers),
            mean_ratio=mean(one.ratio for one in ended),
            mean_seconds=mean(one.seconds for one in ended),
            footprint=Footprint.total(peer.footprint for peer in peers),
            loss=loss,
            accuracy=accuracy,
        )

    def _result(self, peers: Sequence[PeerSummary]) -> tuple[float | None, float | None]:
        of_average: list[GossipEnded | ConsensusMeasured] = [*self._consensus, *([self._ended] if self._ended else [])]
        for event in reversed(of_average):
            if event.loss is not None or event.accuracy is not None:
                return event.loss, event.accuracy
        there = [peer for peer in peers if peer.lost_because is None]
        return mean(peer.loss for peer in there), mean(peer.accuracy for peer in there)


def _epoch(ended: Sequence[EpochEnded], consensus: ConsensusMeasured | None) -> EpochSummary:
    return EpochSummary(
        epoch=ended[0].epoch,
        ended_at=max(one.at for one in ended),
        num_learners=len({one.learner for one in ended}),
        num_samples=sum(one.num_samples for one in ended),
        mean_ratio=sum(one.ratio for one in ended) / len(ended),
        mean_seconds=sum(one.seconds for one in ended) / len(ended),
        max_seconds=max(one.seconds for one in ended),
        bytes_sent=sum(one.bytes_sent for one in ended),
        bytes_received=sum(one.bytes_received for one in ended),
        mean_accuracy=mean(one.accuracy for one in ended),
        consensus=consensus,
    )
