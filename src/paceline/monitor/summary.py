"""Sums up a run: from its events to its figures, in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from paceline.errors import ConfigError
from paceline.events import Event
from paceline.monitor.figures import LearnerRound, LearnerSummary, Metrics, RoundSummary, Summary
from paceline.monitor.footprint import Footprint
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.parallel.events import (
    DeviceMeasured,
    RoundClosed,
    RoundOpened,
    RoundSpent,
    RunEnded,
    RunStarted,
    ShardsAdded,
    ShardsTaken,
    UpdateAccepted,
    UpdateAudited,
    UpdateRefused,
)


def summarise(recorded: Iterable[Event]) -> Summary:
    """Sum up a run, finished or not; raises `ConfigError` for events that contradict each other."""
    draft = _Draft()
    for event in recorded:
        draft.add(event)
    return draft.finish()


def add_wait(happenings: list[Event], event: WaitingForLearners) -> None:
    """Note a wait, unless it is the last that was noted, and as many are ready."""
    last = happenings[-1] if happenings else None
    if not isinstance(last, WaitingForLearners) or (last.round, last.num_ready) != (event.round, event.num_ready):
        happenings.append(event)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


class _LearnerDraft:
    def __init__(self, name: str) -> None:
        self.name = name
        self.rounds: dict[int, LearnerRound] = {}
        self.num_late = 0
        self.num_refused = 0
        self.measured: DeviceMeasured | None = None
        self.left_because: str | None = None

    def change(self, number: int, **changes: Any) -> None:
        known = self.rounds.get(number) or LearnerRound(round=number)
        self.rounds[number] = msgspec.structs.replace(known, **changes)

    def num_shards(self, number: int) -> int:
        return self.rounds[number].num_shards if number in self.rounds else 0

    def finish(self, deadline_seconds: dict[int, float]) -> LearnerSummary:
        rounds = tuple(self.rounds[number] for number in sorted(self.rounds))
        uses = [
            work.busy_seconds / deadline_seconds[work.round]
            for work in rounds
            if work.busy_seconds is not None and work.round in deadline_seconds
        ]
        return LearnerSummary(
            name=self.name,
            rounds=rounds,
            num_shards=sum(work.num_shards for work in rounds),
            num_samples=sum(work.num_samples for work in rounds if work.outcome == "accepted"),
            num_late=self.num_late,
            num_refused=self.num_refused,
            deadline_use=mean(uses),
            profile=self.measured.profile if self.measured else None,
            benchmark_seconds=self.measured.seconds if self.measured else None,
            footprint=Footprint.total(rounds),
            power=self.measured.power if self.measured else None,
            left_because=self.left_because,
        )


class _Draft:
    """A summary in the making."""

    def __init__(self) -> None:
        self._started: RunStarted | None = None
        self._ended: RunEnded | None = None
        self._opened: dict[int, RoundOpened] = {}
        self._closed: dict[int, RoundClosed] = {}
        self._last_late_seconds: dict[int, float] = {}
        self._learners: dict[str, _LearnerDraft] = {}
        self._happenings: list[Event] = []
        self._num_audits = 0
        self._last_at = 0.0

    def _learner(self, name: str) -> _LearnerDraft:
        draft = self._learners.get(name)
        if draft is None:
            draft = self._learners[name] = _LearnerDraft(name)
        return draft

    def add(self, event: Event) -> None:
        self._last_at = max(self._last_at, event.at)
        match event:  # the frequent ones first
            case PhaseStarted():
                pass
            case ShardsTaken() | ShardsAdded() | UpdateAccepted() | UpdateRefused() | RoundSpent():
                self._add_work(event)
            case UpdateAudited():
                self._add_audit(event)
            case RunStarted():
                self._add_start(event)
            case RunEnded():
                self._ended = event
            case RoundOpened():
                self._add_opened(event)
            case RoundClosed():
                self._add_closed(event)
            case LearnerJoined():
                self._learner(event.learner).left_because = None
                self._happenings.append(event)
            case LearnerLeft():
                self._learner(event.learner).left_because = event.reason
                self._happenings.append(event)
            case WaitingForLearners():
                add_wait(self._happenings, event)
            case DeviceMeasured():
                self._learner(event.learner).measured = event

    def _add_start(self, event: RunStarted) -> None:
        if self._started is None:
            self._started = event
        else:
            self._happenings.append(event)
        self._ended = None

    def _add_opened(self, event: RoundOpened) -> None:
        if event.deadline_seconds <= 0:
            raise ConfigError(
                f"round {event.round} was opened with a deadline of {event.deadline_seconds} s, not above 0"
            )
        self._opened[event.round] = event

    def _add_closed(self, event: RoundClosed) -> None:
        if event.round not in self._opened:
            raise ConfigError(f"the events contradict each other: round {event.round} was closed and never opened")
        self._closed[event.round] = event
        for name in event.late:
            learner = self._learner(name)
            learner.num_late += 1
            work = learner.rounds.get(event.round)
            if work is None or work.outcome == "pending":
                learner.change(event.round, outcome="missing")

    def _add_work(self, event: ShardsTaken | ShardsAdded | UpdateAccepted | UpdateRefused | RoundSpent) -> None:
        match event:
            case ShardsTaken():
                self._learner(event.learner).change(
                    event.round,
                    num_shards=event.num_shards,
                    local_epochs=event.local_epochs,
                    start_seconds=event.seconds,
                )
            case ShardsAdded():
                learner = self._learner(event.learner)
                learner.change(event.round, num_shards=learner.num_shards(event.round) + event.num_shards)
            case UpdateAccepted():
                self._learner(event.learner).change(
                    event.round, num_samples=event.num_samples, arrival_seconds=event.seconds, outcome="accepted"
                )
            case UpdateRefused():
                self._add_refusal(event)
            case RoundSpent():
                self._learner(event.learner).change(
                    event.round,
                    num_shards=event.num_shards,
                    num_samples=event.num_samples,
                    start_seconds=event.start_seconds,
                    download_seconds=event.download_seconds,
                    train_seconds=event.train_seconds,
                    upload_seconds=event.upload_seconds,
                    is_halted=event.is_halted,
                    bytes_sent=event.bytes_sent,
                    bytes_received=event.bytes_received,
                    cpu_seconds=event.cpu_seconds,
                    joules=event.joules,
                )

    def _add_refusal(self, event: UpdateRefused) -> None:
        self._happenings.append(event)
        learner = self._learners.get(event.learner)
        work = learner.rounds.get(event.round) if learner else None
        # An update for work that nobody took is worth a line, not a learner; a second copy does not undo the first.
        if learner is None or work is None or event.seconds is None or work.outcome == "accepted":
            return
        if event.is_late:
            self._last_late_seconds[event.round] = max(event.seconds, self._last_late_seconds.get(event.round, 0.0))
        else:
            learner.num_refused += 1
        learner.change(event.round, arrival_seconds=event.seconds, outcome="late" if event.is_late else "refused")

    def _add_audit(self, event: UpdateAudited) -> None:
        self._num_audits += 1
        if event.is_honest:
            return
        self._happenings.append(event)
        learner = self._learner(event.learner)
        learner.num_refused += 1
        learner.change(event.round, outcome="refused")

    def _finish_round(self, closed: RoundClosed) -> RoundSummary:
        opened = self._opened[closed.round]
        truancy = closed.truancy
        last_late_seconds = self._last_late_seconds.get(closed.round)
        if last_late_seconds is not None:
            truancy = max(truancy, last_late_seconds / opened.deadline_seconds - 1)
        return RoundSummary(
            round=closed.round,
            opened_at=opened.at,
            closed_at=closed.at,
            deadline_seconds=opened.deadline_seconds,
            seconds=closed.seconds,
            truancy=truancy,
            num_learners=closed.num_learners,
            num_updates=closed.num_updates,
            num_shards=closed.num_shards,
            num_samples=closed.num_samples,
            staleness=closed.staleness,
            average_staleness=closed.average_staleness,
            fulfilment=closed.fulfilment,
            is_satisfied=closed.is_satisfied,
            occupancy=closed.occupancy,
            late=closed.late,
            loss=closed.loss,
            accuracy=closed.accuracy,
        )

    def finish(self) -> Summary:
        rounds = tuple(self._finish_round(self._closed[number]) for number in sorted(self._closed))
        deadlines = {number: opened.deadline_seconds for number, opened in self._opened.items()}
        learners = tuple(learner.finish(deadlines) for learner in self._learners.values())
        last: RunEnded | RoundSummary | None = next(
            (closed for closed in reversed(rounds) if _is_evaluated(closed)), None
        )
        if self._ended is not None and _is_evaluated(self._ended):
            last = self._ended
        return Summary(
            started=self._started,
            ended=self._ended,
            rounds=rounds,
            learners=learners,
            happenings=tuple(self._happenings),
            seconds=self._last_at - (self._started.at if self._started else 0.0),
            loss=last.loss if last else None,
            accuracy=last.accuracy if last else None,
            truancy_max=max((closed.truancy for closed in rounds), default=None),
            truancy_mean=mean(closed.truancy for closed in rounds),
            num_samples=sum(closed.num_samples for closed in rounds),
            num_learner_rounds=sum(closed.num_learners for closed in rounds),
            num_late=sum(len(closed.late) for closed in rounds),
            num_audits=self._num_audits,
            deadline_use=mean(learner.deadline_use for learner in learners),
            footprint=Footprint.total(learner.footprint for learner in learners),
            **_metrics_of(rounds).as_metrics(),
        )


def _metrics_of(rounds: tuple[RoundSummary, ...]) -> Metrics:
    return Metrics(
        training_seconds=mean(closed.seconds for closed in rounds),
        satisfaction=mean(float(closed.is_satisfied) for closed in rounds),
        fulfilment=mean(closed.fulfilment for closed in rounds),
        drop_rate=mean(1 - closed.fulfilment for closed in rounds),
        occupancy=mean(closed.occupancy for closed in rounds),
    )


def _is_evaluated(result: RunEnded | RoundSummary) -> bool:
    return result.loss is not None or result.accuracy is not None
