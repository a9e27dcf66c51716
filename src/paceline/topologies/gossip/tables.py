"""Tables of a gossip run: what its peers and epochs came to, from the events of its peers in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.events import Event
from paceline.learning.scores import LOSS
from paceline.topologies.events import PhaseStarted, ResultEvent
from paceline.topologies.gossip import events
from paceline.topologies.gossip.progress import News, describe
from paceline.topologies.reporting.base import TableBuilder
from paceline.topologies.reporting.energy_and_bytes import Usage, usage_table
from paceline.topologies.reporting.fleet_now import DONE, GONE, THERE, FleetNow
from paceline.topologies.reporting.formatting import format_count, format_names, named, printable, setting
from paceline.topologies.reporting.shared import Happenings, is_evaluated, mean, summary_table
from paceline.topologies.reporting.tables import Column, Table, Value, columns, metric_columns, recorded_table

AVERAGE, MEAN = "average of all", "mean of the peers"
"""Names among the peers' models: of the average, and of the mean of their figures where nobody sees the average."""
MAX_PHASE_EPOCHS = 12
"""The last epochs whose phases are kept."""

_PEER_EPOCHS = columns(
    *("at seconds ended at", "learner text peer", "epoch count", "seconds seconds took", "num_samples count samples"),
    *("ratio ratio kept of its data", "samples_per_second number expected [samples/s]"),
    *("train_seconds seconds train", "rank_seconds seconds rank", "exchange_seconds seconds exchange"),
    *("num_exchanges count exchanges", "bytes_sent bytes sent", "bytes_received bytes received"),
    *("cpu_seconds seconds processor time", "joules joules energy", "distance number", "mass number"),
    "loss number",
)
EPOCHS_TABLE = recorded_table("epochs", events.EpochEnded, _PEER_EPOCHS, has_metrics=True)
_ALL_EPOCHS = columns(
    *("epoch count", "ended_at seconds", "num_learners count peers", "num_samples count samples"),
    *("mean_ratio ratio kept", "mean_seconds seconds took", "max_seconds seconds at most"),
    *("bytes_sent bytes sent", "bytes_received bytes received", "distance number"),
)
_PEERS = columns(
    *("learner text peer", "epochs count", "own_samples count own samples"),
    *("num_samples count trained", "mean_ratio ratio kept", "expected number [samples/s]"),
    *("mean_seconds seconds epoch", "train_seconds seconds train", "rank_seconds seconds rank"),
    *("exchange_seconds seconds exchange", "num_points count aggregated points", "state text", "end text at the end"),
    "loss number",
)
_LEARNING = columns("at seconds time", "epoch count", "model text peer", "loss number")
_CONSENSUS = columns("epoch count", "at seconds", "num_learners count peers", "distance number", "loss number")
_PHASES = columns("learner text peer", "phase text", "epoch count", "start seconds from", "end seconds to")
_PRESENCE = columns(
    "learner text peer", "state text", "epoch count", "start seconds from", "end seconds to", "reason text"
)
_HEARD = columns("other text from", "learner text to", "models count models of the last epochs")
_HEARD_EPOCHS = 3
_MISSING = columns(
    *("epoch count from epoch", "whose text", "num_samples count samples", "share_failed ratio peers failed"),
    "learner text trained by",
)
_MEANS = ("ratio", "samples_per_second", "seconds", "train_seconds", "rank_seconds", "exchange_seconds")
_OUTAGES = columns("learner text peer", "store text", "start seconds from", "seconds seconds for", "reason text")


class _Peer:
    """What a peer did, and since when it is there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started: events.PeerStarted | None = None
        self.points: events.PointsMade | None = None
        self.ended: events.PeerEnded | None = None
        self.lost: events.PeerLost | None = None
        self.epochs: list[events.EpochEnded] = []
        self.stays: list[tuple[float, float]] = []
        self.phases: list[tuple[Value, ...]] = []
        self._since: float | None = None
        self._last_at: float | None = None  # that it reported of itself
        self._phase: PhaseStarted | None = None

    def hear(self, at: float) -> None:
        """Another reported it; that counts as long as it reports nothing itself."""
        if self._last_at is None and (self._since is None or self.lost is not None):
            self._leave(at)
            self._since, self.lost = at, None

    def feed(
        self, event: events.PeerStarted | PhaseStarted | events.EpochEnded | events.PointsMade | events.PeerEnded
    ) -> None:
        """Take in what it reported of itself."""
        if self._last_at is None:
            self._since = None
            self.stays.clear()
        match event:
            case events.PeerStarted():
                if self._since is not None:
                    self._leave(self._last_at or event.at)
                self._since, self.lost, self.ended, self.started = event.at, None, None, event
            case PhaseStarted():
                self._end_phase(event.at)
                self._phase = event
            case events.EpochEnded():
                if self._phase is not None and self._phase.round <= event.epoch:
                    self._end_phase(event.at)  # what it does between epochs, it does not report
                self.epochs.append(event)
            case events.PointsMade():
                self.points = event
            case events.PeerEnded():
                self._leave(event.at)
                self.ended = event
        self._last_at = event.at

    def _until(self, at: float) -> float:
        """Return that moment, or the one at which it was missed, if it has not been heard of since."""
        is_missed = self.lost is not None and (self._last_at is None or self.lost.at >= self._last_at)
        return self.lost.at if self.lost is not None and is_missed else at

    def _leave(self, at: float) -> None:
        self._end_phase(self._until(at))
        self.stays = self.stays_until(at)
        self._since = None

    def _end_phase(self, at: float) -> None:
        self.phases += self._open_phase(at)
        self._phase = None

    def stays_until(self, at: float) -> list[tuple[float, float]]:
        """From when to when it was there."""
        return self.stays if self._since is None else [*self.stays, (self._since, max(self._until(at), self._since))]

    def phases_until(self, at: float) -> list[tuple[Value, ...]]:
        """What it did when; epoch 0 is before the first."""
        return [*self.phases, *self._open_phase(at)]

    def _open_phase(self, at: float) -> list[tuple[Value, ...]]:
        last, at = self._phase, self._until(at)
        return [] if last is None or at <= last.at else [(self.name, last.phase, last.round, last.at, at)]

    def heard(self) -> list[tuple[Value, ...]]:
        """Whose models it took in its last epochs, and how often."""
        others = Counter(other for one in self.epochs[-_HEARD_EPOCHS:] for other in one.heard)
        return [(other, self.name, count) for other, count in others.items()]

    @property
    def is_lost(self) -> bool:
        """Whether others took it for gone and it did not come back."""
        return self.ended is None and self.lost is not None and (self._last_at or 0.0) <= self.lost.at

    def row(self, metric_names: Sequence[str]) -> tuple[Value, ...]:
        last = next((one for one in reversed(self.epochs) if is_evaluated(one)), None)
        end = "there" if not self.is_lost or self.lost is None else f"gone: {printable(self.lost.reason)}"
        return (
            *(self.name, len(self.epochs), self.started.num_samples if self.started else None),
            sum(one.num_samples for one in self.epochs),
            *(mean(getattr(one, name) for one in self.epochs) for name in _MEANS),
            self.points.num_points if self.points else None,
            GONE if self.is_lost else DONE if self.ended else "training",
            self.ended.reason if self.ended else end,
            *_figures(last, metric_names),
        )


class GossipTables(TableBuilder):
    """The tables of a gossip run, of a whole fleet or as one peer recorded it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._started: events.GossipStarted | None = None
        self._ended: events.GossipEnded | None = None
        self._peers: dict[str, _Peer] = {}
        self._epochs: list[events.EpochEnded] = []
        self._consensus: list[events.ConsensusMeasured] = []
        self._news = News()
        self._happenings = Happenings()
        self._missing: list[events.PartTakenOver | events.DataMissing] = []
        self._outages: dict[str, events.StoreLost] = {}
        self._past_outages: list[tuple[events.StoreLost, float | None]] = []
        self._now = FleetNow(("rank", "train", "exchange"), learner="peer", round="epoch")
        self._num_joined = 0
        self._num_lost = 0

    def _peer(self, name: str) -> _Peer:
        return self._peers.setdefault(name, _Peer(name))

    def feed(self, event: Event, job: str = "") -> None:
        self.last_at = max(self.last_at, event.at)
        if self._news.is_news(event):
            self._add_news(event)
        self._follow(event)
        match event:  # the frequent ones first
            case PhaseStarted() | events.PointsMade() | events.PeerEnded() | events.EpochEnded():
                self._peer(event.learner).feed(event)
                if isinstance(event, events.EpochEnded):
                    self._epochs.append(event)
            case events.PeerStarted():
                self._peer(event.learner).feed(event)
                self._num_joined += event.epoch > 1
                for other in event.known:
                    self._peer(other).hear(event.at)
            case events.PeerSeen():
                self._peer(event.other).hear(event.at)
            case events.ConsensusMeasured():
                self._consensus.append(event)
            case events.StoreLost():
                self._outages.setdefault(event.learner, event)
            case events.StoreBack() if event.learner in self._outages:
                self._past_outages.append((self._outages.pop(event.learner), event.at))
            case events.GossipStarted():
                self._started = event
            case events.GossipEnded():
                self._ended = event

    def _follow(self, event: Event) -> None:
        """Take note of what peers do now."""
        match event:
            case PhaseStarted():
                self._now.turn(event.learner, event.phase, event.round, event.at)
            case events.EpochEnded():
                self._now.arrive(event.learner, event.epoch, event.seconds, event.num_samples)
            case events.PeerStarted():
                self._now.join(event.learner)
            case events.PeerSeen():
                self._now.join(event.other, THERE)
            case events.PeerLost():
                self._now.leave(event.other, event.at)

    def _add_news(self, event: Event) -> None:
        self._happenings.add(event.at, describe(event))
        if isinstance(event, events.PeerLost):
            self._peer(event.other).lost = event
            self._num_lost += 1
        elif isinstance(event, events.PartTakenOver | events.DataMissing):
            self._missing.append(event)

    def tables(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> list[Table]:
        peers = self._peers.values()
        used = {peer.name: Usage.total(peer.epochs) for peer in peers}
        powers = {peer.name: peer.started.power for peer in peers if peer.started}
        names = self._metric_names
        metrics = metric_columns(names)
        all_epochs = Table("all_epochs", (*_ALL_EPOCHS, *_of_peers_and_average(names)), list(self._epoch_rows()))
        table = Table("peers", (*_PEERS, *metrics), [peer.row(names) for peer in peers])
        first_phase = max((one.epoch for one in self._epochs), default=0) - MAX_PHASE_EPOCHS + 1
        phases = [row for peer in peers for row in peer.phases_until(self.last_at) if int(row[2] or 0) >= first_phase]
        return [
            self._summary(all_epochs, table, Usage.total(used.values()).figures(grams_per_kwh)),
            Table("epochs", (*_PEER_EPOCHS, *metrics), [_row(_PEER_EPOCHS, one, names) for one in self._epochs]),
            all_epochs,
            table,
            Table("learning", (*_LEARNING, *metrics), list(self._learning_rows(all_epochs))),
            Table("consensus", (*_CONSENSUS, *metrics), [_row(_CONSENSUS, one, names) for one in self._consensus]),
            Table("phases", _PHASES, [row for row in phases if row[1] != "idle"]),
            Table("presence", _PRESENCE, list(self._presence_rows())),
            Table("missing", _MISSING, [_missing_row(event) for event in self._missing]),
            Table("outages", _OUTAGES, [_outage_row(*outage) for outage in self._all_outages()]),
            usage_table(used, powers, grams_per_kwh),
            self._happenings.table(),
            Table("heard", _HEARD, [row for peer in peers for row in peer.heard()]),
            self._now.table(),
        ]

    def moving_tables(self) -> list[Table]:
        return [self._now.table()]

    def _epoch_rows(self) -> Iterator[tuple[Value, ...]]:
        """A row per epoch, over all peers that ended it."""
        measured, names = {one.epoch: one for one in self._consensus}, self._metric_names
        by_epoch: dict[int, list[events.EpochEnded]] = {}
        for one in self._epochs:
            by_epoch.setdefault(one.epoch, []).append(one)
        for epoch, ended in sorted(by_epoch.items()):
            consensus = measured.get(epoch)
            yield (
                *(epoch, max(one.at for one in ended), len({one.learner for one in ended})),
                *(sum(one.num_samples for one in ended), mean(one.ratio for one in ended)),
                *(mean(one.seconds for one in ended), max(one.seconds for one in ended)),
                *(sum(one.bytes_sent for one in ended), sum(one.bytes_received for one in ended)),
                consensus.distance if consensus else None,
                *(mean(figures) for figures in zip(*(_figures(one, names) for one in ended), strict=True)),
                *_figures(consensus, names),
            )

    def _learning_rows(self, epochs: Table) -> Iterator[tuple[Value, ...]]:
        """Make a row for each model that was evaluated."""
        names, evaluated = self._metric_names, [one for one in self._epochs if is_evaluated(one)]
        average = [one for one in self._consensus if is_evaluated(one)]
        for one in average:
            yield (one.at, one.epoch, AVERAGE, *_figures(one, names))
        if not average and evaluated:
            for record in epochs.records():
                means = (record[f"mean_{name}"] for name in (LOSS, *names))
                yield (record["ended_at"], record["epoch"], MEAN, *means)
        for ended in evaluated:
            yield (ended.at, ended.epoch, ended.learner, *_figures(ended, names))

    def _presence_rows(self) -> Iterator[tuple[Value, ...]]:
        for peer in self._peers.values():
            for start, end in peer.stays_until(self.last_at):
                yield (peer.name, "there", None, start, end, None)
            for one in peer.epochs[::2]:  # every other one, so that they can be told apart
                yield (peer.name, "epoch", one.epoch, one.at - one.seconds, one.at, None)
        for lost, until in self._all_outages():
            end = self.last_at if until is None else until
            yield (lost.learner, "without the store", None, lost.at, end, lost.reason)

    def _all_outages(self) -> list[tuple[events.StoreLost, float | None]]:
        outages = [*self._past_outages, *((lost, None) for lost in self._outages.values())]
        return sorted(outages, key=lambda one: (one[0].at, one[0].learner))

    def _result(self, peers: Table) -> dict[str, float | None]:
        """Loss and metrics of the average, or the mean of the peers' own if it is not known."""
        names = (LOSS, *self._metric_names)
        of_average: list[ResultEvent] = [*([self._ended] if self._ended else []), *reversed(self._consensus)]
        for event in of_average:
            if is_evaluated(event):
                return dict(zip(names, _figures(event, self._metric_names), strict=True))
        there = [one for one in peers.records() if not self._peers[one["learner"]].is_lost]
        return {name: mean(one[name] for one in there) for name in names}

    @property
    def _metric_names(self) -> tuple[str, ...]:
        return self._started.metric_names if self._started else ()

    def _summary(self, all_epochs: Table, peers: Table, usage: dict[str, Value]) -> Table:
        started, ended, settings = self._started, self._ended, self._settings
        planned, exchange, graph = (setting(settings, "gossip", key) for key in ("epochs", "exchange", "graph"))
        about = [
            f"{named(settings, 'model')} on {named(settings, 'data')}",
            *([f"{started.num_parameters:,} parameters"] if started else []),
            f"{exchange} on a {graph} graph" if exchange == "mixing" else f"{exchange or 'gossip'}",
            f"shares by {named(settings, 'allocation')}",
            f"{started.clock} clock" if started else "nothing recorded",
        ]
        missing = [one for one in self._missing if isinstance(one, events.DataMissing)]
        metrics = self._result(peers)
        figures: dict[str, Value] = {
            "about text": printable(" · ".join(about)),
            "ended text": _why_ended(ended) if ended else None,
            "clock text": started.clock if started else None,
            "loss number": metrics.pop(LOSS),
            "epochs count": max(all_epochs.values("epoch"), default=0),
            "planned_epochs count": planned if isinstance(planned, int) else None,
            "seconds seconds time": self.last_at - (started.at if started else 0.0),
            "mean_seconds seconds an epoch took": mean(one.seconds for one in self._epochs),
            "mean_ratio ratio kept of the data": mean(one.ratio for one in self._epochs),
            "num_samples count samples trained": sum(one.num_samples for one in self._epochs),
            "num_peers count peers": len(self._peers),
            "num_joined count joined later": self._num_joined,
            "num_lost count lost": self._num_lost,
            "num_missing count samples missing": sum(one.num_samples for one in missing),
            "num_taken_over count parts taken over": len(self._missing) - len(missing),
            "num_parameters count parameters": started.num_parameters if started else None,
        }
        return summary_table(figures, metrics, usage)


def _of_peers_and_average(metric_names: Sequence[str]) -> tuple[Column, ...]:
    """Make columns for the means of the peers' own loss and metrics, and for those of the average."""
    own = (*columns("loss number"), *metric_columns(metric_names))
    means = (replace(one, name=f"mean_{one.name}", title=f"peers' {one.title}", is_metric=False) for one in own)
    return (*means, *(replace(one, title=f"average's {one.title}") for one in own))


def _row(
    shown: Sequence[Column], event: events.EpochEnded | events.ConsensusMeasured, metric_names: Sequence[str]
) -> tuple[Value, ...]:
    """Make a row of fields of an event, and its metrics."""
    return (*(getattr(event, column.name) for column in shown), *(event.metrics.get(name) for name in metric_names))


def _figures(event: events.EpochEnded | ResultEvent | None, metric_names: Sequence[str]) -> list[float | None]:
    """Return the loss and the metrics of an event; None for what was not measured."""
    if event is None:
        return [None, *(None for _ in metric_names)]
    return [event.loss, *(event.metrics.get(name) for name in metric_names)]


def _missing_row(event: events.PartTakenOver | events.DataMissing) -> tuple[Value, ...]:
    if isinstance(event, events.PartTakenOver):
        return (event.epoch, event.other, event.num_samples, None, event.learner)
    return (event.epoch, format_names(event.others), event.num_samples, event.share_failed, "nobody")


def _outage_row(lost: events.StoreLost, until: float | None) -> tuple[Value, ...]:
    return (lost.learner, lost.store, lost.at, None if until is None else until - lost.at, lost.reason)


def _why_ended(ended: events.GossipEnded) -> str:
    averaged = f"{format_count(len(ended.averaged), 'peer')} averaged"
    return averaged if ended.reason == "epochs done" else f"{ended.reason}, {averaged}"
