"""What can be said of a run at this moment: kept up to date by its events, read by the live table."""

from __future__ import annotations

import collections
import heapq
from typing import Literal, TypeAlias

from paceline.events import Event, Phase
from paceline.monitor.wording import printable, say_event, setting
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.parallel.events import (
    RoundClosed,
    RoundOpened,
    RunEnded,
    RunStarted,
    ShardsAdded,
    ShardsTaken,
    UpdateAccepted,
    UpdateAudited,
    UpdateRefused,
)

Stretch: TypeAlias = Literal[Phase, "working"]
"""A phase, or work of a learner that does not tell its phases."""

_STATUS: dict[Stretch, str] = {
    "benchmark": "benchmarking",
    "download": "downloading",
    "train": "training",
    "upload": "uploading",
    "idle": "idle",
    "working": "working",
}
_MAX_ACCURACIES = 20
_MAX_MESSAGES = 3


class Seat:
    """What is known of a learner in its current or last round.

    Attributes:
        status: one word, or ``gone`` or ``refused`` with the reason.
        doing: what the learner turned to last.
        is_trouble: whether the status is bad news, which stays until the next round.
        gone_at: when the learner left, None if it is there.
        stretches: what it turned to, and at which second of the run's clock.
        origin: when its bar begins, on the same clock.
        is_told: whether the learner tells its phases.
    """

    def __init__(self, name: str, order: int, at: float) -> None:
        self.name = name
        self.order = order
        self.round = 0
        self.status = "idle"
        self.doing: Stretch = "idle"
        self.is_trouble = False
        self.gone_at: float | None = None
        self.is_told = False
        self.num_shards: int | None = None
        self.num_samples: int | None = None
        self.origin = at
        self.stretches: list[tuple[Stretch, float]] = []

    def begin(self, number: int, origin: float) -> None:
        """Start the bar of another round; nothing if it is that one already."""
        if number == self.round and (number > 0 or self.stretches):
            return
        self.round, self.origin = number, origin
        self.is_trouble, self.gone_at = False, None
        self.num_shards = self.num_samples = None
        self.stretches = []

    def turn_to(self, stretch: Stretch, at: float) -> None:
        """Note that the learner does something else from now on."""
        self.doing = stretch
        self.stretches.append((stretch, at))
        if not self.is_trouble:
            self.status = _STATUS[stretch]

    def stretch_at(self, at: float) -> Stretch | None:
        """What it was doing at that second; None before it began."""
        return next((stretch for stretch, since in reversed(self.stretches) if since <= at), None)

    def trouble(self, status: str) -> None:
        """Bad news, to be shown for the rest of the round."""
        self.status, self.is_trouble = status, True


class Board:
    """The state of a run, from its events; takes constant time for each but the closing of a round."""

    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}
        self.num_rounds: int | None = None
        self.deadline_seconds: float | None = None
        self.round = 0
        self.opened_at: float | None = None
        self.closed_at: float | None = None
        self.ended: RunEnded | None = None
        self.waiting: WaitingForLearners | None = None
        self.loss: float | None = None
        self.accuracies: collections.deque[float] = collections.deque(maxlen=_MAX_ACCURACIES)
        self.num_samples = 0
        self.messages: collections.deque[str] = collections.deque(maxlen=_MAX_MESSAGES)

    def tell(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case PhaseStarted():
                self._turn(event)
            case ShardsTaken() | ShardsAdded() | UpdateAccepted() | UpdateRefused():
                self._work(event)
            case UpdateAudited(is_honest=False):
                self._expose(event)
            case LearnerJoined() | LearnerLeft():
                self._presence(event)
            case RunStarted():
                self.num_rounds = setting(event.job, "job", "rounds")
                self.deadline_seconds = setting(event.job, "job", "deadline_seconds")
            case WaitingForLearners():
                self.waiting = event
            case RoundOpened():
                self.round, self.opened_at, self.closed_at = event.round, event.at, None
                self.deadline_seconds, self.waiting = event.deadline_seconds, None
            case RoundClosed():
                self._close(event)
            case RunEnded():
                self.ended, self.waiting = event, None
        if isinstance(event, LearnerLeft | UpdateRefused | UpdateAudited):
            self.messages.extend(filter(None, [say_event(event)]))

    def most_interesting(self, limit: int) -> list[Seat]:
        """At most so many learners, in the order in which they came: those in trouble first, those gone last."""
        if len(self.seats) <= limit:
            return list(self.seats.values())
        chosen = heapq.nsmallest(limit, self.seats.values(), key=lambda seat: (self._rank(seat), seat.order))
        return sorted(chosen, key=lambda seat: seat.order)

    def is_in_round(self, seat: Seat) -> bool:
        """Whether what is known of the learner is of the current or last round, or of before its first."""
        return seat.round in (0, self.round)

    def _rank(self, seat: Seat) -> int:
        is_now = self.is_in_round(seat)
        if seat.is_trouble and is_now:
            return 0
        return 3 if seat.gone_at is not None else 1 if is_now else 2

    def _seat(self, name: str, at: float) -> Seat:
        seat = self.seats.get(name)
        if seat is None:
            seat = self.seats[name] = Seat(name, len(self.seats), at)
        return seat

    def _begin(self, seat: Seat, number: int, at: float) -> None:
        seat.begin(number, self.opened_at if number == self.round and self.opened_at is not None else at)

    def _turn(self, event: PhaseStarted) -> None:
        seat = self._seat(event.learner, event.at)
        self._begin(seat, event.round, event.at)
        seat.is_told = True
        seat.turn_to(event.phase, event.at)

    def _work(self, event: ShardsTaken | ShardsAdded | UpdateAccepted | UpdateRefused) -> None:
        if isinstance(event, UpdateRefused) and event.learner not in self.seats:
            return  # of somebody who never joined
        seat = self._seat(event.learner, event.at)
        if isinstance(event, ShardsTaken):
            self._begin(seat, event.round, event.at)
            seat.num_shards = event.num_shards
        elif event.round != seat.round:
            return
        elif isinstance(event, ShardsAdded):
            seat.num_shards = (seat.num_shards or 0) + event.num_shards
            return
        elif isinstance(event, UpdateAccepted):
            seat.num_samples = event.num_samples
        else:
            seat.trouble("late" if event.is_late else f"refused: {printable(event.reason)}")
        if not seat.is_told:
            seat.turn_to("working" if isinstance(event, ShardsTaken) else "idle", event.at)

    def _expose(self, event: UpdateAudited) -> None:
        seat = self.seats.get(event.learner)
        if seat is not None and event.round == seat.round:
            seat.trouble("cheated")

    def _presence(self, event: LearnerJoined | LearnerLeft) -> None:
        if isinstance(event, LearnerJoined):
            seat = self._seat(event.learner, event.at)
            seat.status, seat.doing, seat.is_trouble, seat.gone_at = "idle", "idle", False, None
        elif event.learner in self.seats:
            seat = self.seats[event.learner]
            seat.trouble(f"gone: {printable(event.reason)}")
            seat.gone_at = event.at

    def _close(self, event: RoundClosed) -> None:
        self.closed_at = event.at
        self.num_samples += event.num_samples
        self.loss = event.loss if event.loss is not None else self.loss
        if event.accuracy is not None:
            self.accuracies.append(event.accuracy)
        for name in event.late:
            seat = self.seats.get(name)
            if seat is not None and not seat.is_trouble:
                seat.trouble("late")
