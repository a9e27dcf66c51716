"""Tells a split run in plain lines: one per epoch over all nodes, and who comes, is masked and goes."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from paceline.events import Event
from paceline.monitor.lines import Printer
from paceline.monitor.split_figures import BRANCH, TRUNK, bytes_moved
from paceline.monitor.wording import printable, say_bytes, say_count, say_event, say_ratio, say_seconds, setting
from paceline.topologies.split.events import CutChosen, NodeSpent, SplitEnded, SplitEpochEnded, SplitStarted


class SplitLines:
    """A line for the parts of the model, per epoch, and for who joins, is masked, is back and leaves.

    An epoch is told with what went over the network: once the trunk has told how it spent it, or when the next one is
    over. In the record of a source alone, an epoch is what that source spent.
    """

    def __init__(self, console: Console) -> None:
        self._printer = Printer(console)
        self._num_epochs: int | None = None
        self._started: SplitStarted | None = None
        self._spent: dict[int, list[NodeSpent]] = {}
        self._ended: SplitEpochEnded | None = None

    def tell(self, event: Event) -> None:
        """Print the lines that it makes due."""
        match event:
            case SplitStarted(job=job):
                self._started = event
                self._num_epochs = setting(job, "split", "epochs")
                self._printer.tell(event, _say_parts(job, event.num_parameters))
            case NodeSpent(learner=name, epoch=epoch):
                self._spent.setdefault(epoch, []).append(event)
                if self._started is None and name != TRUNK:
                    self._printer.tell(event, self._node_line(event))
            case SplitEpochEnded():
                self._tell_epoch()
                self._ended = event
            case SplitEnded():
                self._tell_epoch()
        if self._ended is not None and any(one.learner == TRUNK for one in self._spent.get(self._ended.epoch, [])):
            self._tell_epoch()
        self._printer.tell(event, say_event(event))
        if isinstance(event, CutChosen) and self._started is not None and not self._started.num_parameters:
            self._printer.tell(event, _say_parts(self._started.job, event.num_parameters))

    def _tell_epoch(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            self._printer.tell(ended, self._line(ended, self._spent.pop(ended.epoch, [])))

    def _line(self, ended: SplitEpochEnded, spent: list[NodeSpent]) -> str:
        parts = [
            self._say_epoch(ended.epoch),
            say_count(ended.num_sources, "source"),
            say_count(ended.num_steps, "step"),
            say_count(ended.num_samples, "sample"),
            say_seconds(ended.seconds),
        ]
        if spent:
            parts.append(f"sent {say_bytes(bytes_moved(spent))}")
        if ended.num_masked:
            parts.append(f"{say_count(ended.num_masked, 'input')} missing")
        if ended.loss is not None:
            parts.append(f"loss {ended.loss:.3f}")
        elif ended.train_loss is not None:
            parts.append(f"training loss {ended.train_loss:.3f}")
        return "  ".join([*parts, *([] if ended.accuracy is None else [f"accuracy {say_ratio(ended.accuracy)}"])])

    def _node_line(self, spent: NodeSpent) -> str:
        parts = [
            self._say_epoch(spent.epoch),
            f"{say_seconds(spent.seconds)}: computed {say_seconds(spent.compute_seconds)}, "
            f"waited {say_seconds(spent.wait_seconds)}",
            f"sent {say_bytes(spent.bytes_sent)}",
            f"received {say_bytes(spent.bytes_received)}",
        ]
        return "  ".join(parts)

    def _say_epoch(self, epoch: int) -> str:
        return f"epoch {epoch}" + (f"/{self._num_epochs}" if self._num_epochs else "")


def _say_parts(job: dict[str, Any], num_parameters: dict[str, int]) -> str:
    """How many parameters each part has: ``fpl: branch 52,096 parameters × 5 sources, junction 1,049,600``."""
    num_sources = _num_sources(job)
    copies = f" × {say_count(num_sources, 'source')}" if num_sources else " per source"
    sizes = [
        f"{name} {say_count(size, 'parameter')}{copies if name == BRANCH else ''}"
        for name, size in num_parameters.items()
        if size
    ]
    scheme = setting(job, "split", "scheme") or "split"
    return printable(f"{scheme}: {', '.join(sizes) or 'the cut is chosen when sources have measured themselves'}")


def _num_sources(job: dict[str, Any]) -> int | None:
    """That the job is for, None if it does not say."""
    for told in (setting(job, "split", "sources"), job.get("view")):
        if isinstance(told, int) and not isinstance(told, bool):
            return told
        if isinstance(told, list | tuple):
            return len(told)
    return None
