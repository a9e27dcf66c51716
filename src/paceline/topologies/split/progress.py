"""Lines about a split run for a terminal: one per epoch over all nodes, and who comes, is masked and goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from paceline.events import Event
from paceline.topologies.events import PhaseStarted
from paceline.topologies.reporting.base import Milestone, Progress
from paceline.topologies.reporting.formatting import (
    describe_metrics,
    format_bytes,
    format_count,
    format_names,
    format_seconds,
    printable,
    setting,
)
from paceline.topologies.reporting.shared import describe_membership
from paceline.topologies.split import events


def bytes_moved(spent: Iterable[events.NodeSpent]) -> int:
    """Count what went over the network in an epoch, each byte once.

    All goes to or from the trunk; if it did not report, what the others sent and received is counted.
    """
    reported = list(spent)
    trunk = [one for one in reported if one.learner == events.TRUNK]
    return sum(one.bytes_sent + one.bytes_received for one in trunk or reported)


def describe(event: Event) -> str | None:
    """Say in one line who came, was masked or went, and what became of the model; None for other events."""
    match event:
        case events.CutChosen():
            return _describe_cut(event)
        case events.JunctionChanged(epoch=epoch, sources=sources, num_parameters=num_parameters):
            merged = f"{format_count(len(sources), 'source')} ({format_names(sources)})" if sources else "no source"
            return f"epoch {epoch}: the junction merges {merged}, {format_count(num_parameters, 'parameter')}"
        case events.SourceMasked(learner=name, epoch=epoch, step=step, reason=reason):
            return f"epoch {epoch}, step {step}: {printable(name)} is masked: {printable(reason)}"
        case events.SourceBack(learner=name, epoch=epoch, step=step):
            return f"epoch {epoch}, step {step}: {printable(name)} is back"
        case events.SplitEnded(at=at, reason=reason, epochs=epochs, metrics=metrics):
            parts = [reason, f"{format_count(epochs, 'epoch')} in {format_seconds(at)}", *describe_metrics(metrics)]
            return f"ended: {', '.join(parts)}"
    return describe_membership(event)


def _describe_cut(event: events.CutChosen) -> str:
    by_seconds = sorted(event.expected_seconds.items(), key=lambda item: item[1])
    own = [format_seconds(seconds) for cut, seconds in by_seconds if cut == event.cut]
    others = format_names(f"{cut} {format_seconds(seconds)}" for cut, seconds in by_seconds if cut != event.cut)
    expected = f", {own[0]} expected for an epoch" if own else ""
    return f"cut before {printable(event.cut)}{expected}" + (f"; instead: {others}" if others else "")


class SplitProgress(Progress):
    """A line for the parts of the model, per epoch, and for who joins, is masked, is back and leaves.

    An epoch is shown with what went over the network: once the trunk has reported how it spent it, or when the next one
    is over. In the record of a source alone, an epoch is what that source spent.
    """

    def __init__(self) -> None:
        self._num_epochs: int | None = None
        self._num_ended = 0
        self._started: events.SplitStarted | None = None
        self._spent: dict[int, list[events.NodeSpent]] = {}
        self._ended: events.SplitEpochEnded | None = None
        self._last_line = ""

    @property
    def share_done(self) -> float | None:
        return self._num_ended / self._num_epochs if self._num_epochs else None

    def lines(self, event: Event, job: str = "") -> Iterator[str]:
        match event:
            case events.SplitStarted(job=settings):
                self._started = event
                self._num_epochs = setting(settings, "split", "epochs")
                if event.first_epoch > 1:
                    yield f"goes on after epoch {event.first_epoch - 1}"
                yield _describe_parts(settings, event.num_parameters)
            case PhaseStarted(phase="benchmark") if self._started is None:
                yield "joining …"
            case events.NodeSpent(learner=name, epoch=epoch):
                self._spent.setdefault(epoch, []).append(event)
                if self._started is None and name != events.TRUNK:
                    yield self._node_line(event)
            case events.SplitEpochEnded():
                yield from self._epoch_lines()
                self._ended, self._num_ended = event, event.epoch
            case events.SplitEnded():
                yield from self._epoch_lines()
        if self._ended is not None and any(
            one.learner == events.TRUNK for one in self._spent.get(self._ended.epoch, [])
        ):
            yield from self._epoch_lines()
        line = describe(event)
        if line and line != self._last_line:  # a wait is not repeated
            self._last_line = line
            yield line
        if isinstance(event, events.CutChosen) and self._started is not None and not self._started.num_parameters:
            yield _describe_parts(self._started.job, event.num_parameters)

    def _epoch_lines(self) -> Iterator[Milestone]:
        ended, self._ended = self._ended, None
        if ended is None:
            return
        spent = self._spent.pop(ended.epoch, [])
        parts = [
            self._describe_epoch(ended.epoch),
            format_count(ended.num_sources, "source"),
            format_count(ended.num_steps, "step"),
            format_count(ended.num_samples, "sample"),
            format_seconds(ended.seconds),
            *([f"sent {format_bytes(bytes_moved(spent))}"] if spent else []),
            *([f"{format_count(ended.num_masked, 'input')} missing"] if ended.num_masked else []),
        ]
        if ended.loss is not None:
            parts.append(f"loss {ended.loss:.3f}")
        elif ended.train_loss is not None:
            parts.append(f"training loss {ended.train_loss:.3f}")
        yield Milestone("  ".join([*parts, *describe_metrics(ended.metrics)]))

    def _node_line(self, spent: events.NodeSpent) -> Milestone:
        computed, waited = format_seconds(spent.compute_seconds), format_seconds(spent.wait_seconds)
        parts = [
            self._describe_epoch(spent.epoch),
            f"{format_seconds(spent.seconds)}: computed {computed}, waited {waited}",
            f"sent {format_bytes(spent.bytes_sent)}",
            f"received {format_bytes(spent.bytes_received)}",
        ]
        return Milestone("  ".join(parts))

    def _describe_epoch(self, epoch: int) -> str:
        if not epoch:
            return "at the end"
        return f"epoch {epoch}" + (f"/{self._num_epochs}" if self._num_epochs else "")


def _describe_parts(job: dict[str, Any], num_parameters: dict[str, int]) -> str:
    """Say how many parameters each part has: ``fpl: branch 52,096 parameters × 5 sources, junction 1,049,600``."""
    num_sources = _num_sources(job)
    copies = f" × {format_count(num_sources, 'source')}" if num_sources else " per source"
    sizes = [
        f"{name} {format_count(size, 'parameter')}{copies if name == 'branch' else ''}"
        for name, size in num_parameters.items()
        if size
    ]
    scheme = setting(job, "split", "scheme") or "split"
    return printable(f"{scheme}: {', '.join(sizes) or 'the cut is chosen when sources have measured themselves'}")


def _num_sources(job: dict[str, Any]) -> int | None:
    """Return how many sources the job is for; None if it does not say."""
    for known in (setting(job, "split", "sources"), job.get("view")):
        if isinstance(known, int) and not isinstance(known, bool):
            return known
        if isinstance(known, list | tuple):
            return len(known)
    return None
