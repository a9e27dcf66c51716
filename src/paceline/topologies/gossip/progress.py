"""Lines that report a gossip run on a terminal: one per epoch over all peers, and who comes, goes and misses what."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.events import Event
from paceline.topologies.events import StateLost
from paceline.topologies.gossip import events
from paceline.topologies.reporting.base import Milestone, Progress
from paceline.topologies.reporting.formatting import (
    describe_metrics,
    format_bytes,
    format_count,
    format_known,
    format_names,
    format_ratio,
    format_seconds,
    printable,
    setting,
)
from paceline.topologies.reporting.shared import describe_membership, mean


def describe(event: Event) -> str | None:
    """Say in one line who came or went, what was missing or lost, or how it ended; None for other events."""
    match event:
        case events.PeerStarted(learner=name, epoch=epoch, num_samples=num_samples):
            later = f", from epoch {epoch} on" if epoch > 1 else ""
            return f"{printable(name)} joined with {format_count(num_samples, 'sample')}{later}"
        case events.PeerSeen(learner=name, other=other):
            return f"{printable(name)} heard of {printable(other)}"
        case events.PeerLost(learner=name, other=other, reason=reason):
            return f"{printable(other)} is gone: {printable(reason)} (reported by {printable(name)})"
        case events.RelayFound(learner=name, relay=relay):
            return f"{printable(name)} takes its calls by way of {printable(relay)}"
        case events.PartTakenOver(learner=name, other=other, epoch=epoch, num_samples=num_samples):
            samples = format_count(num_samples, "sample")
            return f"epoch {epoch}: {printable(name)} trains the {samples} of {printable(other)}, too"
        case events.DataMissing(epoch=epoch, others=others, share_failed=share, num_samples=num_samples):
            samples = format_count(num_samples, "sample")
            failed = f"{format_ratio(share)} of all peers failed"
            return f"epoch {epoch}: {failed}; {samples} of {format_names(others)} are missing"
        case events.StoreLost(learner=name, store=store, reason=reason):
            return f"{printable(name)} cannot reach the store {printable(store)}: {printable(reason)}"
        case events.StoreBack(store=store):
            return f"the store {printable(store)} is back"
        case events.PeerEnded(learner=name, reason=reason, epochs=epochs, metrics=metrics):
            parts = [reason, format_count(epochs, "epoch"), *describe_metrics(metrics)]
            return f"{printable(name)} ended: {', '.join(parts)}"
        case events.GossipEnded(at=at, reason=reason, averaged=averaged, metrics=metrics):
            stopped = [] if reason == "epochs done" else [reason]
            average = f"average of {format_count(len(averaged), 'peer')}"
            parts = [*stopped, average, *describe_metrics(metrics), f"in {format_seconds(at)}"]
            return f"ended: {', '.join(parts)}"
    return describe_membership(event)


class News:
    """Says of each event, in order, whether it is the first to report something that is worth a line.

    Many peers report the same of each other. A peer that is gone is reported once, by the first that misses it, until
    it starts again; one that has ended is not missed. Whom a peer hears of is worth a line only if it is recorded
    alone: where there are several, each reports itself. A store is lost with the first peer that cannot reach it, and
    back with the last.
    """

    def __init__(self) -> None:
        self._recorded: set[str] = set()
        self._started: set[str] = set()
        self._seen: set[str] = set()
        self._gone: set[str] = set()
        self._ended: set[str] = set()
        self._without_store: set[str] = set()
        self._missing: set[frozenset[str]] = set()

    def is_news(self, event: Event) -> bool:
        """Say whether an event is worth a line of its own."""
        reporter = getattr(event, "learner", None)
        if reporter is not None:
            self._recorded.add(reporter)
        match event:
            case events.PeerStarted(learner=name, known=known):
                self._started.add(name)
                self._seen.update(known)
                self._gone.discard(name)
                self._ended.discard(name)
                return True
            case events.PeerEnded(learner=name):
                self._ended.add(name)
                return True
            case events.PeerSeen(other=name):
                is_new = name not in self._seen or name in self._gone
                self._seen.add(name)
                if len(self._recorded) > 1:
                    return False
                self._gone.discard(name)
                return is_new and bool(self._started)  # whom it knew as it began is not worth a line each
            case events.PeerLost(other=name):
                is_new = name not in self._gone and name not in self._ended
                self._gone.add(name)
                return is_new
            case events.DataMissing(others=others):
                is_new = frozenset(others) not in self._missing
                self._missing.add(frozenset(others))
                return is_new
            case events.StoreLost(learner=name):
                is_new = not self._without_store
                self._without_store.add(name)
                return is_new
            case events.StoreBack(learner=name):
                was_without = bool(self._without_store)
                self._without_store.discard(name)
                return was_without and not self._without_store
        return isinstance(event, events.PartTakenOver | events.RelayFound | events.GossipEnded | StateLost)


class GossipProgress(Progress):
    """A line per epoch, and for who joins, is lost or stops, what is taken over or missing, and the store.

    An epoch is due once all living peers have ended it, or most of them the next; with the newest average of all, if a
    fleet measured one since the last.
    """

    def __init__(self) -> None:
        self._news = News()
        self._num_epochs: int | None = None
        self._living: dict[str, int] = {}  # the last epoch that each has ended
        self._num_peers = 0
        self._ended: dict[int, list[events.EpochEnded]] = {}
        self._last_shown = 0
        self._consensus: events.ConsensusMeasured | None = None

    @property
    def share_done(self) -> float | None:
        return self._last_shown / self._num_epochs if self._num_epochs else None

    def lines(self, event: Event, job: str = "") -> Iterator[str]:
        match event:
            case events.GossipStarted():
                self._num_epochs = setting(event.job, "gossip", "epochs")
            case events.PeerStarted(learner=name, epoch=epoch):
                self._living[name] = epoch - 1
                self._num_peers += 1
            case events.PeerLost(other=name) | events.PeerEnded(learner=name):
                self._living.pop(name, None)
            case events.EpochEnded(learner=name, epoch=epoch):
                self._living[name] = epoch
                self._ended.setdefault(epoch, []).append(event)
            case events.ConsensusMeasured():
                self._consensus = event
        while self._last_shown < max(self._ended, default=0) and self._is_due(self._last_shown + 1):
            self._last_shown += 1
            ended = self._ended.pop(self._last_shown, [])
            if ended:
                yield self._epoch_line(ended)
        # The end of one of many is no news at the end of all.
        is_one_end = self._num_peers > 1 and isinstance(event, events.PeerEnded)
        if self._news.is_news(event) and not is_one_end and (line := describe(event)):
            yield line

    def _is_due(self, epoch: int) -> bool:
        last = self._living.values()
        return all(ended >= epoch for ended in last) or 2 * sum(ended > epoch for ended in last) > len(last)

    def _epoch_line(self, ended: list[events.EpochEnded]) -> Milestone:
        seconds = [one.seconds for one in ended]
        longest = f", at most {format_seconds(max(seconds))}" if len(ended) > 1 else ""
        parts = [
            f"epoch {ended[0].epoch}" + (f"/{self._num_epochs}" if self._num_epochs else ""),
            format_count(len(ended), "peer"),
            format_count(sum(one.num_samples for one in ended), "sample"),
            format_seconds(sum(seconds) / len(seconds)) + longest,
            f"kept {format_known(mean(one.ratio for one in ended), format_ratio)}",
            f"sent {format_bytes(sum(one.bytes_sent for one in ended))}",
        ]
        metrics = {name: mean(one.metrics.get(name) for one in ended) for name in ended[0].metrics}
        consensus, self._consensus = self._consensus, None
        if consensus is not None:
            parts.append(f"distance {consensus.distance:.3g}")
            metrics |= consensus.metrics
        return Milestone("  ".join([*parts, *describe_metrics(metrics)]))
