"""Lines that show a pool of jobs on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.events import Event
from paceline.topologies.events import WaitingForLearners
from paceline.topologies.parallel import events
from paceline.topologies.parallel.progress import RoundLines, share_done
from paceline.topologies.parallel.progress import describe as describe_in_job
from paceline.topologies.reporting.base import Milestone, Progress
from paceline.topologies.reporting.formatting import (
    describe_metrics,
    format_count,
    format_money,
    format_names,
    format_ratio,
    format_seconds,
    printable,
)


def describe_placements(event: events.JobsAllocated, limit: int = 5) -> str:
    """Say who is in which job with how many shards: ``mnist: pi 12, jetson 30; fashion: nano 20``."""
    teams: dict[str, list[str]] = {}
    for learner, (job, num_shards) in event.placements.items():
        teams.setdefault(job, []).append(f"{learner} {num_shards}")
    return "; ".join(f"{printable(job)}: {format_names(team, limit)}" for job, team in teams.items()) or "nobody"


def describe(event: Event, job: str = "") -> str | None:
    """Say in one line what happened in a pool or one of its jobs; None if it is not worth one."""
    match event:
        case events.JobSubmitted(job=name, rounds=rounds, deadline_seconds=seconds, num_shards=num_shards):
            work = f"{format_count(rounds, 'round')} of {format_seconds(seconds)}, {format_count(num_shards, 'shard')}"
            return f"{printable(name)} submitted: {work}"
        case events.JobsAllocated():
            return _describe_allocation(event)
        case events.LearnerPaid(job=name, round=number, learner=learner, num_samples=0):
            return f"{printable(name)}, round {number}: {printable(learner)} is paid nothing"
        case events.TrainingFailed(job=name, round=number, learner=learner, reason=reason):
            when = f"round {number}" if number else "to begin with"
            return f"{printable(name)}, {when}: {printable(learner)} could not train it: {printable(reason)}"
        case events.JobEnded(job=name, reason=reason, rounds=rounds, metrics=metrics, detail=detail):
            parts = [printable(reason), format_count(rounds, "round"), *describe_metrics(metrics)]
            return f"{printable(name)} ended: {', '.join(parts)}" + (f"; {printable(detail)}" if detail else "")
        case events.PoolEnded(at=at, reason=reason, spent=spent):
            return f"ended: {printable(reason)}, {format_money(spent)} paid in {format_seconds(at)}"
    line = describe_in_job(event)
    return f"{printable(job)}, {line}" if job and line else line


def _describe_allocation(event: events.JobsAllocated) -> str:
    parts = [f"placed {describe_placements(event)}"]
    if event.placements:
        seconds, cost = format_seconds(event.expected_seconds), format_money(event.cost)
        parts.append(f"expected: {seconds} and {cost} for a round of each")
    others = {"idle": event.idle, "without learners": event.waiting, "given up": event.waived}
    parts += [f"{label}: {format_names(names)}" for label, names in others.items() if names]
    parts += [f"{printable(job)} cannot be done: {printable(reason)}" for job, reason in event.hindered.items()]
    parts += [f"without the solver, which failed: {printable(event.failure)}"] if event.failure else []
    return "; ".join(parts)


class PoolProgress(Progress):
    """A line per closed round of each job, and for who and what comes, is placed, is not paid and ends."""

    def __init__(self) -> None:
        self._rounds: dict[str, RoundLines] = {}
        self._most_ready = -1  # of the waits since learners were placed

    @property
    def share_done(self) -> float | None:
        return share_done(self._rounds.values())

    def lines(self, event: Event, job: str = "") -> Iterable[str]:
        if isinstance(event, events.JobSubmitted):
            self._rounds[event.job] = RoundLines(event.rounds)
        elif job:
            self._rounds.setdefault(job, RoundLines()).feed(event)
        if isinstance(event, WaitingForLearners):
            if event.num_ready <= self._most_ready:  # learners that measure themselves are ready on and off
                return []
            self._most_ready = event.num_ready
        elif isinstance(event, events.JobsAllocated):
            self._most_ready = -1
        if isinstance(event, events.RoundClosed):
            fulfilled = f"fulfilled {format_ratio(event.fulfilment)}"
            return [Milestone(f"{printable(job)}  {self._rounds.setdefault(job, RoundLines()).line(event, fulfilled)}")]
        line = describe(event, job)
        return [] if line is None else [line]
