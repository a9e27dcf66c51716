"""Tells a gossip run in plain lines: one per epoch over all peers, and who comes, goes and misses what."""

from __future__ import annotations

from rich.console import Console

from paceline.events import Event
from paceline.monitor.gossip_news import News
from paceline.monitor.lines import Printer
from paceline.monitor.summary import mean
from paceline.monitor.wording import say_bytes, say_count, say_event, say_known, say_ratio, say_seconds, setting
from paceline.topologies.gossip.events import (
    ConsensusMeasured,
    EpochEnded,
    GossipStarted,
    PeerEnded,
    PeerLost,
    PeerStarted,
)


class GossipLines:
    """A line per epoch, and for who joins, is lost or stops, what is taken over or missing, and the store.

    An epoch is told once all living peers have ended it, or most of them the next; with the newest average of all, if
    a fleet measured one since the last.
    """

    def __init__(self, console: Console) -> None:
        self._printer = Printer(console)
        self._news = News()
        self._num_epochs: int | None = None
        self._living: dict[str, int] = {}  # the last epoch that each has ended
        self._num_peers = 0
        self._ended: dict[int, list[EpochEnded]] = {}
        self._last_told = 0
        self._consensus: ConsensusMeasured | None = None

    def tell(self, event: Event) -> None:
        """Print the lines that it makes due."""
        match event:
            case GossipStarted():
                self._num_epochs = setting(event.job, "gossip", "epochs")
            case PeerStarted(learner=name, epoch=epoch):
                self._living[name] = epoch - 1
                self._num_peers += 1
            case PeerLost(other=name) | PeerEnded(learner=name):
                self._living.pop(name, None)
            case EpochEnded(learner=name, epoch=epoch):
                self._living[name] = epoch
                self._ended.setdefault(epoch, []).append(event)
            case ConsensusMeasured():
                self._consensus = event
        while self._last_told < max(self._ended, default=0) and self._is_due(self._last_told + 1):
            self._last_told += 1
            ended = self._ended.pop(self._last_told, [])
            if ended:
                self._printer.tell(ended[-1], self._line(ended))
        if self._news.is_news(event) and not self._is_plain_end(event):
            self._printer.tell(event, say_event(event))

    def _is_due(self, epoch: int) -> bool:
        last = self._living.values()
        return all(ended >= epoch for ended in last) or 2 * sum(ended > epoch for ended in last) > len(last)

    def _is_plain_end(self, event: Event) -> bool:
        """Whether it is the end of one of many, which is no news at the end of all."""
        return self._num_peers > 1 and isinstance(event, PeerEnded) and event.reason == "epochs done"

    def _line(self, ended: list[EpochEnded]) -> str:
        seconds = [one.seconds for one in ended]
        longest = f", at most {say_seconds(max(seconds))}" if len(ended) > 1 else ""
        parts = [
            f"epoch {ended[0].epoch}" + (f"/{self._num_epochs}" if self._num_epochs else ""),
            say_count(len(ended), "peer"),
            say_count(sum(one.num_samples for one in ended), "sample"),
            say_seconds(sum(seconds) / len(seconds)) + longest,
            f"kept {say_known(mean(one.ratio for one in ended), say_ratio)}",
            f"sent {say_bytes(sum(one.bytes_sent for one in ended))}",
        ]
        accuracy = mean(one.accuracy for one in ended)
        consensus, self._consensus = self._consensus, None
        if consensus is not None:
            parts.append(f"apart {consensus.distance:.3g}")
            accuracy = accuracy if consensus.accuracy is None else consensus.accuracy
        return "  ".join([*parts, *([] if accuracy is None else [f"accuracy {say_ratio(accuracy)}"])])
