"""Sums up a split run: from the events of its nodes to its figures, in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from paceline.events import Event
from paceline.monitor.figures import Presence
from paceline.monitor.split_figures import (
    BRANCH,
    JUNCTION,
    TRUNK,
    Mask,
    NodeSummary,
    Part,
    SplitEpochSummary,
    SplitSummary,
    bytes_moved,
)
from paceline.monitor.summary import add_wait, mean
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.split.events import (
    CutChosen,
    JunctionChanged,
    NodeSpent,
    NodeStarted,
    SourceBack,
    SourceMasked,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)


def summarise_split(recorded: Iterable[Event]) -> SplitSummary:
    """Sum up a split run, finished or not."""
    draft = _Draft()
    for event in recorded:
        draft.add(event)
    return draft.finish()


class _NodeDraft:
    """What a node did, since when it is there, and since when it is masked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spent: list[NodeSpent] = []
        self._presences: list[Presence] = []
        self._masks: list[Mask] = []
        self._left_because: str | None = None
        self.power: dict[str, Any] | None = None
        self._since: float | None = None
        self._masked: SourceMasked | None = None

    def tell(self, event: LearnerJoined | LearnerLeft | SourceMasked | SourceBack) -> None:
        """What was told of it."""
        match event:
            case LearnerJoined(at=at):
                self._since = at if self._since is None else self._since
                self._left_because = None
            case LearnerLeft(at=at, reason=reason):
                self._end_mask(at)
                self._end_presence(at)
                self._left_because = reason
            case SourceMasked():
                self._masked = self._masked or event
            case SourceBack(at=at):
                self._end_mask(at)

    def _end_presence(self, at: float) -> None:
        since, self._since = self._since, None
        if since is not None:
            self._presences.append(Presence(start=since, end=at))

    def _end_mask(self, at: float | None) -> None:
        last, self._masked = self._masked, None
        if last is not None:
            self._masks.append(Mask(epoch=last.epoch, step=last.step, reason=last.reason, start=last.at, end=at))

    def finish(self, last_at: float) -> NodeSummary:
        self._end_mask(None)
        self._end_presence(last_at)
        epochs = [one for one in self.spent if one.epoch > 0]
        return NodeSummary(
            name=self.name,
            epochs=tuple(epochs),
            presences=tuple(self._presences),
            masks=tuple(self._masks),
            mean_seconds=mean(one.seconds for one in epochs),
            mean_compute_seconds=mean(one.compute_seconds for one in epochs),
            mean_wait_seconds=mean(one.wait_seconds for one in epochs),
            bytes_sent=sum(one.bytes_sent for one in self.spent),
            bytes_received=sum(one.bytes_received for one in self.spent),
            cpu_seconds=sum(one.cpu_seconds for one in self.spent),
            joules=sum(one.joules for one in self.spent),
            power=self.power,
            left_because=self._left_because,
        )


class _Draft:
    """A summary in the making."""

    def __init__(self) -> None:
        self._started: SplitStarted | None = None
        self._ended: SplitEnded | None = None
        self._cut: CutChosen | None = None
        self._junctions: list[JunctionChanged] = []
        self._nodes: dict[str, _NodeDraft] = {}
        self._spent: dict[int, list[NodeSpent]] = {}
        self._epochs: dict[int, SplitEpochEnded] = {}
        self._happenings: list[Event] = []
        self._last_at = 0.0

    def _node(self, name: str) -> _NodeDraft:
        draft = self._nodes.get(name)
        if draft is None:
            draft = self._nodes[name] = _NodeDraft(name)
        return draft

    def add(self, event: Event) -> None:
        self._last_at = max(self._last_at, event.at)
        match event:
            case NodeSpent():
                self._node(event.learner).spent.append(event)
                self._spent.setdefault(event.epoch, []).append(event)
            case SplitEpochEnded():
                self._epochs[event.epoch] = event
            case NodeStarted():
                self._node(event.learner).power = event.power
            case LearnerJoined() | LearnerLeft() | SourceMasked() | SourceBack():
                self._node(event.learner).tell(event)
                self._happenings.append(event)
            case WaitingForLearners():
                add_wait(self._happenings, event)
            case JunctionChanged():
                self._junctions.append(event)
                self._happenings.append(event)
            case CutChosen():
                self._cut = event
                self._happenings.append(event)
            case SplitStarted():
                self._started = event
            case SplitEnded():
                self._ended = event

    def finish(self) -> SplitSummary:
        in_order = sorted(self._nodes.values(), key=lambda node: node.name != TRUNK)
        nodes = tuple(node.finish(self._last_at) for node in in_order)
        epochs = tuple(self._finish_epoch(self._epochs[number]) for number in sorted(self._epochs))
        tested = [one for one in epochs if _is_tested(one.ended)]
        best = min(tested, key=_badness, default=None)
        result = self._ended if self._ended and _is_tested(self._ended) else tested[-1].ended if tested else None
        return SplitSummary(
            started=self._started,
            ended=self._ended,
            cut=self._cut,
            parts=self._parts(),
            junctions=tuple(self._junctions),
            nodes=nodes,
            epochs=epochs,
            best=best,
            happenings=tuple(self._happenings),
            seconds=self._last_at - (self._started.at if self._started else 0.0),
            mean_seconds=mean(one.ended.seconds for one in epochs),
            num_samples=sum(one.ended.num_samples for one in epochs),
            num_masked=sum(one.ended.num_masked for one in epochs),
            bytes_moved=sum(map(bytes_moved, self._spent.values())),
            cpu_seconds=sum(node.cpu_seconds for node in nodes),
            joules=sum(node.joules for node in nodes),
            loss=result.loss if result else None,
            accuracy=result.accuracy if result else None,
        )

    def _finish_epoch(self, ended: SplitEpochEnded) -> SplitEpochSummary:
        spent = self._spent.get(ended.epoch, [])
        return SplitEpochSummary(ended=ended, bytes_moved=bytes_moved(spent), joules=sum(one.joules for one in spent))

    def _parts(self) -> tuple[Part, ...]:
        """The parts that have parameters; the junction and its sources are those of its last change, if it had any."""
        told = self._cut or self._started
        sizes = dict(told.num_parameters) if told else {}
        num_sources = max((one.num_sources for one in self._epochs.values()), default=0)
        num_sources = num_sources or sum(name != TRUNK for name in self._nodes)
        if self._junctions:
            sizes[JUNCTION] = self._junctions[-1].num_parameters
            num_sources = len(self._junctions[-1].sources)
        return tuple(
            Part(name=name, num_parameters=size, num_copies=num_sources if name == BRANCH else 1)
            for name, size in sizes.items()
            if size
        )


def _is_tested(result: SplitEnded | SplitEpochEnded) -> bool:
    return result.loss is not None or result.accuracy is not None


def _badness(epoch: SplitEpochSummary) -> float:
    """By which the best of several epochs is found: the loss, or where there is none, the errors."""
    loss, accuracy = epoch.ended.loss, epoch.ended.accuracy
    badness = loss if loss is not None else 1 - (accuracy or 0.0)
    return math.inf if math.isnan(badness) else badness
