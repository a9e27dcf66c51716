"""Who takes part in the meetings of a split job, who is waited for, and who is gone on without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from paceline.events import Emit
from paceline.topologies.split.changes import Changes
from paceline.topologies.split.events import SourceBack, SourceMasked
from paceline.topologies.split.gathering import Gathering
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.messages import Costs

_MAX_LEAD = 1 << 10  # meetings that a source may be sent ahead
_SILENCE = 10  # times the patience: if nobody comes to a meeting for so long, others may take over who wait to


@dataclass
class Standing:
    """How a source stands.

    Attributes:
        status: ``new``: it waits to be taken in; ``present``: the others wait for it; ``masked``: they do not, until it
            brings something; ``left``: it will not come back.
        since: the epoch and meeting from which on it is waited for.
        lead: how many meetings ahead it is sent when it is late again.
        is_merged: whether what it brings is made use of.
        is_missed: whether it was masked, and has brought nothing since.
        is_asking: whether it waits to be told where to go on.
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


class Attendance:
    """The sources of a job.

    Args:
        changes: told of by whoever does something that a meeting may wait for.
        now: seconds since the run started.

    Attributes:
        standings: by the source's name, in the order of joining.
        num_masked: inputs that were missing in steps, since this was last set to 0.
    """

    def __init__(self, job: SplitJob, changes: Changes, emit: Emit, now: Callable[[], float]) -> None:
        self.standings: dict[str, Standing] = {}
        self.num_masked = 0
        self._job = job
        self._changes = changes
        self._emit = emit
        self._now = now

    def add(self, source: str) -> Standing:
        """A source that was never there; it gets the first number that is free."""
        taken = {standing.number for standing in self.standings.values()}
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        standing = self.standings[source] = Standing(number=number)
        return standing

    @property
    def ready(self) -> list[str]:
        """Those that wait for the next epoch, or take part."""
        return [name for name, standing in self.standings.items() if standing.is_ready]

    async def gather(self, gathering: Gathering, index: int) -> dict[str, Any] | None:
        """What sources bring to a meeting, in the order of joining; who lets the others wait for too long is masked.

        It is nothing if all who were to come are gone, and others wait at a later meeting; and None if nobody is left
        for the rest of the epoch but newcomers, who can begin with the next.
        """
        loop, place = asyncio.get_running_loop(), (gathering.epoch, index)
        num_waiting, latest = 0, loop.time()
        while True:
            brought = gathering.brought(index)
            waiting = brought.keys() or gathering.waiting_after(index)
            missing = [
                name
                for name, standing in self.standings.items()
                if standing.status == "present" and standing.since <= place and name not in brought
            ]
            if not missing and (waiting or gathering.epoch > self._job.epochs):  # in the end, nobody may be left
                break
            if len(waiting) != num_waiting:
                num_waiting, latest = len(waiting), loop.time()
            patience_seconds = self._job.patience_seconds * (1 if waiting else _SILENCE)
            is_limited = waiting or self._are_asking("new") or (missing and self._are_asking("masked"))
            left = latest + patience_seconds - loop.time() if is_limited else None
            if left is not None and left <= 0:
                if not missing:
                    return None
                for name in missing:
                    self.mask(name, gathering, f"nothing came of it for {patience_seconds:g} s")
                latest = loop.time()
                self._changes.tell()
                continue
            await self._changes.next(left)
        self._count_missing(gathering, index, brought)
        return {name: brought[name] for name in self.standings if name in brought}

    def _are_asking(self, status: str) -> bool:
        """Whether any who stand so wait to be told where to go on."""
        return any(standing.is_asking and standing.status == status for standing in self.standings.values())

    def _count_missing(self, gathering: Gathering, index: int, brought: Mapping[str, Any]) -> None:
        is_step = gathering.meetings[index].phase == "step"
        for name, standing in self.standings.items():
            if name in brought:
                if standing.is_missed:
                    standing.is_missed = False
                    self._emit(SourceBack(at=self._now(), learner=name, epoch=gathering.epoch, step=index + 1))
            elif standing.is_merged:
                self.num_masked += is_step

    def mask(self, name: str, gathering: Gathering | None, reason: str) -> None:
        """Go on without a source that was waited for, until it is told where to go on."""
        standing = self.standings[name]
        if standing.status != "present":
            return
        standing.status, standing.is_missed = "masked", True
        standing.lead = min(2 * standing.lead, _MAX_LEAD)
        if gathering is not None:
            gathering.forget(name)
            self._emit(
                SourceMasked(
                    at=self._now(), learner=name, epoch=gathering.epoch, step=gathering.index + 1, reason=reason
                )
            )

    def place_in(self, gathering: Gathering, standing: Standing) -> int | None:
        """The meeting that a source goes on with; None if there is none for it in this epoch."""
        if standing.status in ("new", "left"):
            return None
        if standing.status == "masked":
            index = gathering.index + self._lead(standing, gathering)
        else:
            index = standing.since[1] if standing.since[0] == gathering.epoch else 0
        return None if index >= len(gathering.meetings) and gathering.meetings else index

    def _lead(self, standing: Standing, gathering: Gathering) -> int:
        """How many meetings ahead a source is sent; none if no other is there to hold the one that is on."""
        place = (gathering.epoch, gathering.index)
        are_there = any(other.status == "present" and other.since <= place for other in self.standings.values())
        return standing.lead if are_there else 0
