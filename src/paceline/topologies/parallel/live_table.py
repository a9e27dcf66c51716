"""The live table of a run of one job, kept up to date by its events."""

from __future__ import annotations

import collections
import heapq

from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, Metrics, PhaseStarted, StateLost, WaitingForLearners
from paceline.topologies.parallel import events
from paceline.topologies.parallel.progress import describe
from paceline.topologies.reporting.base import Activity, LiveTableRow, LiveTableState, LiveTableView
from paceline.topologies.reporting.formatting import describe_metrics, format_count, format_seconds, printable, setting

_STATUS: dict[Activity, str] = {
    "benchmark": "benchmarking",
    "download": "downloading",
    "train": "training",
    "upload": "uploading",
    "idle": "idle",
    "working": "working",
}
_MAX_DRAWN, _MAX_MESSAGES = 20, 3
_MESSAGES = (
    *(LearnerLeft, StateLost, events.SavingFailed),
    *(events.UpdateRefused, events.UpdateKept, events.UpdateAudited),
    *(events.UpdateLimited, events.ClaimLimited, events.RoundRolledBack),
)


class _Learner:
    """What is known of a learner in its current or last round.

    Attributes:
        is_trouble: whether the status is bad news, which stays until the next round.
        gone_at: when the learner left, None if it is there.
        activities: what it turned to, and when.
        origin: when its bar begins.
        reports_phases: whether it records what it turns to.
    """

    def __init__(self, name: str, order: int, at: float) -> None:
        self.name, self.order = name, order
        self.round = 0
        self.status = "idle"
        self.doing: Activity = "idle"
        self.is_trouble = False
        self.gone_at: float | None = None
        self.reports_phases = False
        self.num_shards: int | None = None
        self.num_samples: int | None = None
        self.origin = at
        self.activities: list[tuple[Activity, float]] = []

    def begin(self, number: int, origin: float) -> None:
        """Start the bar of another round; nothing if it is that one already."""
        if number == self.round and (number > 0 or self.activities):
            return
        self.round, self.origin = number, origin
        self.is_trouble, self.gone_at = False, None
        self.num_shards = self.num_samples = None
        self.activities = []

    def turn_to(self, activity: Activity, at: float) -> None:
        self.doing = activity
        self.activities.append((activity, at))
        if not self.is_trouble:
            self.status = _STATUS[activity]

    def activity_at(self, at: float) -> Activity:
        return next((activity for activity, since in reversed(self.activities) if since <= at), "idle")

    def trouble(self, status: str) -> None:
        """Show bad news for the rest of the round."""
        self.status, self.is_trouble = status, True


class RunLiveTable(LiveTableState):
    """A row per learner with its round as a bar against the deadline; constant time per event but a closed round."""

    def __init__(self) -> None:
        self._learners: dict[str, _Learner] = {}
        self._num_rounds: int | None = None
        self._deadline_seconds: float | None = None
        self._round = 0
        self._opened_at: float | None = None
        self._closed_at: float | None = None
        self._ended: events.RunEnded | None = None
        self._waiting: WaitingForLearners | None = None
        self._loss: float | None = None
        self._metrics: Metrics = {}
        self._drawn: collections.deque[float] = collections.deque(maxlen=_MAX_DRAWN)  # of the first metric, or the loss
        self._num_samples = 0
        self._messages: collections.deque[str] = collections.deque(maxlen=_MAX_MESSAGES)

    def feed(self, event: Event) -> None:
        match event:
            case PhaseStarted():
                learner = self._learner(event.learner, event.at)
                self._begin(learner, event.round, event.at)
                learner.reports_phases = True
                learner.turn_to(event.phase if event.phase in _STATUS else "working", event.at)
            case events.ShardsTaken() | events.ShardsAdded() | events.UpdateAccepted() | events.UpdateRefused():
                self._work(event)
            case events.UpdateKept() if event.learner in self._learners:
                self._learners[event.learner].trouble("late, discounted")
            case events.UpdateAudited(is_honest=False):
                audited = self._learners.get(event.learner)
                if audited is not None and event.round == audited.round:
                    audited.trouble("failed audit")
            case events.UpdateLimited(part=0.0) if event.learner in self._learners:
                self._learners[event.learner].trouble("did not count: too unlike the others")
            case LearnerJoined():
                learner = self._learner(event.learner, event.at)
                learner.status, learner.doing, learner.is_trouble, learner.gone_at = "idle", "idle", False, None
            case LearnerLeft() if event.learner in self._learners:
                self._learners[event.learner].trouble(f"gone: {printable(event.reason)}")
                self._learners[event.learner].gone_at = event.at
            case events.RunStarted():
                self._num_rounds = setting(event.job, "job", "rounds")
                self._deadline_seconds = setting(event.job, "job", "deadline_seconds")
            case WaitingForLearners():
                self._waiting = event
            case events.RoundOpened():
                self._round, self._opened_at, self._closed_at = event.round, event.at, None
                self._deadline_seconds, self._waiting = event.deadline_seconds, None
            case events.RoundClosed():
                self._close(event)
            case events.RunEnded():
                self._ended, self._waiting = event, None
        if isinstance(event, _MESSAGES):
            self._messages.extend(filter(None, [describe(event)]))

    def _learner(self, name: str, at: float) -> _Learner:
        if name not in self._learners:
            self._learners[name] = _Learner(name, len(self._learners), at)
        return self._learners[name]

    def _begin(self, learner: _Learner, number: int, at: float) -> None:
        learner.begin(number, self._opened_at if number == self._round and self._opened_at is not None else at)

    def _work(
        self, event: events.ShardsTaken | events.ShardsAdded | events.UpdateAccepted | events.UpdateRefused
    ) -> None:
        if isinstance(event, events.UpdateRefused) and event.learner not in self._learners:
            return  # of somebody who never joined
        learner = self._learner(event.learner, event.at)
        if isinstance(event, events.ShardsTaken):
            self._begin(learner, event.round, event.at)
            learner.num_shards = event.num_shards
        elif event.round != learner.round:
            return
        elif isinstance(event, events.ShardsAdded):
            learner.num_shards = (learner.num_shards or 0) + event.num_shards
            return
        elif isinstance(event, events.UpdateAccepted):
            learner.num_samples = event.num_samples
        else:
            learner.trouble("late" if event.is_late else f"refused: {printable(event.reason)}")
        if not learner.reports_phases:
            learner.turn_to("working" if isinstance(event, events.ShardsTaken) else "idle", event.at)

    def _close(self, event: events.RoundClosed) -> None:
        self._closed_at = event.at
        self._num_samples += event.num_samples
        self._loss = event.loss if event.loss is not None else self._loss
        self._metrics = dict(event.metrics) or self._metrics
        drawn = next(iter(event.metrics.values()), event.loss)
        if drawn is not None:
            self._drawn.append(drawn)
        for name in event.late:
            learner = self._learners.get(name)
            if learner is not None and not learner.is_trouble:
                learner.trouble("late")

    def view(self, now: float, num_rows: int, bar_cells: int) -> LiveTableView:
        now = now if self._ended is None else self._ended.at
        learners = list(self._learners.values())
        if len(learners) > num_rows:  # those in trouble first, those gone last, in the order in which they came
            chosen = heapq.nsmallest(num_rows, learners, key=lambda one: (self._rank(one), one.order))
            learners = sorted(chosen, key=lambda one: one.order)
        kinds = {one.reports_phases for one in self._learners.values()}
        return LiveTableView(
            bar_title=(
                f"round {self._round}" if self._round else "benchmark",
                "" if self._deadline_seconds is None else f"{format_seconds(self._deadline_seconds)} ▾",
            ),
            count_titles=("shards", "samples"),
            rows=[self._row(one, now, bar_cells) for one in learners],
            num_rows=len(self._learners),
            activities=[one for one in _STATUS if kinds and (one == "idle" or (one != "working") in kinds)],
            progress=self._describe_progress(now),
            results=self._results(),
            messages=list(self._messages),
        )

    def _rank(self, learner: _Learner) -> int:
        if learner.is_trouble and self._is_current(learner):
            return 0
        return 3 if learner.gone_at is not None else 1 if self._is_current(learner) else 2

    def _is_current(self, learner: _Learner) -> bool:
        return learner.round in (0, self._round)

    def _row(self, learner: _Learner, now: float, bar_cells: int) -> LiveTableRow:
        is_current, bar = self._is_current(learner), []
        if is_current and learner.activities:
            closed_at = self._closed_at if learner.round == self._round else None
            until = min(end for end in (now, closed_at, learner.gone_at) if end is not None)
            cell_seconds = (self._deadline_seconds or 1.0) / bar_cells
            moments = [learner.origin + (cell + 0.5) * cell_seconds for cell in range(bar_cells)]
            bar = [learner.activity_at(at) if at < until else None for at in moments]
        counts = (learner.num_shards, learner.num_samples) if is_current else (None, None)
        return LiveTableRow(
            name=printable(learner.name),
            bar=bar,
            counts=tuple("" if count is None else f"{count:,}" for count in counts),
            status=learner.status,
            style="gone" if learner.gone_at is not None else "bad" if learner.is_trouble else learner.doing,
        )

    def _describe_progress(self, now: float) -> str:
        parts = []
        if self._round:
            parts.append(f"round {self._round}" + (f" of {self._num_rounds:,}" if self._num_rounds else ""))
        if self._ended is not None:
            parts.append(f"finished: {self._ended.reason}")
        elif self._waiting is not None:
            parts.append(f"waiting for devices: {self._waiting.num_ready} of {self._waiting.min_learners} ready")
        elif self._closed_at is not None:
            parts.append("closed")
        elif self._opened_at is not None and self._deadline_seconds is not None:
            left_seconds = self._opened_at + self._deadline_seconds - now
            parts.append(f"{format_seconds(left_seconds)} left" if left_seconds >= 0 else "deadline passed")
        return "   ".join(parts)

    def _results(self) -> tuple[str, list[float], str]:
        parts = [f"loss {self._loss:.3f}"] if self._loss is not None else []
        parts += describe_metrics(self._metrics)
        samples = format_count(self._num_samples, "sample") if self._num_samples else ""
        return "   ".join(parts), list(self._drawn), samples
