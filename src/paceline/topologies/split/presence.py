"""The sources of a split job: who takes part, who is waited for, and who is masked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from paceline.errors import PacelineError
from paceline.events import Emit
from paceline.topologies.sessions import Changes
from paceline.topologies.split.barrier import EpochBarrier
from paceline.topologies.split.events import SourceBack, SourceMasked
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.messages import Costs

_MAX_LEAD = 1 << 10  # sync points that a source may be sent ahead
SILENCE = 10
"""Times the patience: if nobody sends anything for so long, others may take over who wait to."""


class SourcesGone(PacelineError):
    """All sources are gone, and none comes back."""


@dataclass
class SourceState:
    """Whether a source takes part, and from where on.

    Attributes:
        status: ``new``: it waits to be taken in; ``present``: the others wait for it; ``masked``: they do not, until it
            sends something; ``left``: it will not come back.
        since: the epoch and sync point from which on it is waited for.
        lead: how many sync points ahead it is sent when it is late again.
        is_merged: whether the model makes use of what it sends.
        is_missed: whether it was masked, and has sent nothing since.
        is_asking: whether it waits for a ticket.
        has_lost: whether it has no parameters of its own.
        costs: what it measured, where that was asked for.
    """

    number: int
    status: Literal["new", "present", "masked", "left"] = "new"
    since: tuple[int, int] = (0, 0)
    lead: int = 1
    is_ready: bool = False
    is_merged: bool = False
    is_missed: bool = False
    is_asking: bool = False
    has_lost: bool = False
    costs: Costs | None = None


class Presence:
    """The sources of a job.

    Args:
        changes: notified by whoever does something that a sync point may wait for.
        now: seconds since the run started.

    Attributes:
        states: state of each source by name, in the order of joining.
        num_masked: inputs that were missing in steps, since this was last set to 0.
    """

    def __init__(self, job: SplitJob, changes: Changes, emit: Emit, now: Callable[[], float]) -> None:
        self.states: dict[str, SourceState] = {}
        self.num_masked = 0
        self._job = job
        self._changes = changes
        self._emit = emit
        self._now = now

    def add(self, source: str) -> SourceState:
        """Add a source that was never there; it gets the first number that is free."""
        taken = {state.number for state in self.states.values()}
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        state = self.states[source] = SourceState(number=number)
        return state

    def expect(self, sources: Mapping[str, int]) -> None:
        """Have these sources, by number, come back to a run that goes on: to go on from the trunk's copies."""
        for name, number in sources.items():
            self.states[name] = SourceState(number=number, is_merged=True, has_lost=True)

    @property
    def ready(self) -> list[str]:
        """Sources that wait for the next epoch, or take part."""
        return [name for name, state in self.states.items() if state.is_ready]

    async def collect(self, barrier: EpochBarrier, index: int) -> dict[str, Any] | None:
        """Wait for what sources send for a sync point, and mask who lets the others wait for too long.

        Returns it in the order of joining; nothing if all who were to send are gone, and others wait at a later sync
        point; and None if nobody is left for the rest of the epoch but newcomers, who can begin with the next.

        Raises `SourcesGone` if nothing is heard of anybody for too long.
        """
        loop, place = asyncio.get_running_loop(), (barrier.epoch, index)
        num_waiting, latest = 0, loop.time()
        while True:
            received = barrier.received(index)
            waiting = received.keys() or barrier.waiting_after(index)
            missing = [
                name
                for name, state in self.states.items()
                if state.status == "present" and state.since <= place and name not in received
            ]
            if not missing and (waiting or barrier.epoch > self._job.epochs):  # in the end, nobody may be left
                break
            if len(waiting) != num_waiting:
                num_waiting, latest = len(waiting), loop.time()
            patience_seconds = self._job.patience_seconds * (1 if waiting else SILENCE)
            is_over = barrier.epoch > self._job.epochs  # what the trunk has of who is missing will do
            is_limited = waiting or self._are_asking("new") or (missing and (is_over or self._are_asking("masked")))
            left = latest + (patience_seconds if is_limited else self._job.abandon_seconds) - loop.time()
            if left <= 0:
                if not is_limited:
                    raise SourcesGone(
                        f"nothing was heard of any source for {self._job.abandon_seconds:g} s (abandon_seconds); once "
                        "they are back, the run can be resumed"
                    )
                if not missing:
                    return None
                for name in missing:
                    self.mask(name, barrier, f"nothing came of it for {patience_seconds:g} s")
                latest = loop.time()
                self._changes.notify()
                continue
            await self._changes.next(left)
        self._count_missing(barrier, index, received)
        return {name: received[name] for name in self.states if name in received}

    def _are_asking(self, status: str) -> bool:
        """Return whether any source of this status waits for a ticket."""
        return any(state.is_asking and state.status == status for state in self.states.values())

    def _count_missing(self, barrier: EpochBarrier, index: int, received: Mapping[str, Any]) -> None:
        is_step = barrier.points[index].phase == "step"
        for name, state in self.states.items():
            if name in received:
                if state.is_missed:
                    state.is_missed = False
                    self._emit(SourceBack(at=self._now(), learner=name, epoch=barrier.epoch, step=index + 1))
            elif state.is_merged:
                self.num_masked += is_step

    def mask(self, name: str, barrier: EpochBarrier | None, reason: str) -> None:
        """Go on without a source that was waited for, until it has another ticket."""
        state = self.states[name]
        if state.status != "present":
            return
        state.status, state.is_missed = "masked", True
        state.lead = min(2 * state.lead, _MAX_LEAD)
        if barrier is not None:
            barrier.discard(name)
            self._emit(
                SourceMasked(at=self._now(), learner=name, epoch=barrier.epoch, step=barrier.index + 1, reason=reason)
            )

    def place_in(self, barrier: EpochBarrier, state: SourceState) -> int | None:
        """Return the sync point that a source goes on with; None if there is none for it in this epoch."""
        if state.status in ("new", "left"):
            return None
        if state.status == "masked":
            index = barrier.index + self._lead(state, barrier)
        else:
            index = state.since[1] if state.since[0] == barrier.epoch else 0
        return None if index >= len(barrier.points) and barrier.points else index

    def _lead(self, state: SourceState, barrier: EpochBarrier) -> int:
        """Return how many sync points ahead a source is sent; 0 if no other takes part in the open one."""
        place = (barrier.epoch, barrier.index)
        are_there = any(other.status == "present" and other.since <= place for other in self.states.values())
        return state.lead if are_there else 0
