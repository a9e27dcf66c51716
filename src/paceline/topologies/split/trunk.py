"""The trunk: holds the labels and what all sources have in common, meets with them, and goes on without who is late."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch

import paceline
from paceline.devices.energy import MakeMeter, Meter
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.engines import Engine
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.parallel.conductor import Conductor
from paceline.topologies.parallel.course import Surroundings
from paceline.topologies.parallel.orchestrator import FAREWELL_SECONDS, POLL_SECONDS, check_version
from paceline.topologies.parallel.roster import Member, Roster
from paceline.topologies.split.agendas import agenda
from paceline.topologies.split.attendance import Attendance, Standing
from paceline.topologies.split.changes import Changes
from paceline.topologies.split.cuts import choose_cut
from paceline.topologies.split.events import (
    CutChosen,
    JunctionChanged,
    NodeSpent,
    NodeStarted,
    SplitEnded,
    SplitEpochEnded,
    SplitStarted,
)
from paceline.topologies.split.gathering import Gathering
from paceline.topologies.split.jobs import AUTO
from paceline.topologies.split.making import trunk_scheme
from paceline.topologies.split.messages import MAX_ECHO_BYTES, Answer, Costs, Ticket, TrunkService, Welcome
from paceline.topologies.split.plans import SplitPlan
from paceline.topologies.split.schemes import Tally, TrunkScheme

NAME = "trunk"
"""What the trunk is called in events, and no source may be."""


class Trunk(Conductor, TrunkService):
    """Trains a split job with whoever joins. `run` is its life; the service is for sources.

    Args:
        engine: does the trunk's own work.
        make_meter: makes what tells what that takes.

    Attributes:
        ended: how the run ended, once it has.
    """

    calls: ClassVar[frozenset[str]] = TrunkService.__abstractmethods__

    def __init__(self, plan: SplitPlan, engine: Engine, around: Surroundings, make_meter: MakeMeter) -> None:
        self._plan = plan
        self._job = plan.job
        self._engine = engine
        self._around = around
        self._make_meter = make_meter
        self._roster = Roster()
        self._changes = Changes()
        self._attendance = Attendance(plan.job, self._changes, self._emit, self.now)
        self._standings = self._attendance.standings
        self._cut = "" if len(plan.cuts) != 1 else plan.cuts[0]
        self._scheme: TrunkScheme | None = None
        self._gathering: Gathering | None = None
        self._former: Gathering | None = None
        self._traffic = [0, 0]  # bytes sent and received
        self._started = 0.0
        self.ended: SplitEnded | None = None

    # The life of a run.

    async def run(self) -> None:
        self._started = asyncio.get_running_loop().time() - self._around.started_at
        names = [f"source {number}" for number in range(1, self._job.sources + 1)]
        sizes = {} if self._job.cut == AUTO and self._job.is_split else self._plan.num_parameters(self._cut, names)
        self._emit(
            SplitStarted(
                at=self.now(),
                job=self._job.described(),
                clock=self._around.clock,
                num_parameters=sizes,
                paceline=paceline.__version__,
            )
        )
        await self._until_ready()
        if not self._cut and self._job.is_split:
            await self._choose_cut()
        self._scheme = await self._engine.run(self._make_scheme, 0)
        with contextlib.closing(self._make_meter(asyncio.get_running_loop().time)) as meter:
            self._emit(NodeStarted(at=self.now(), learner=NAME, number=0, power=meter.described))
            self.ended = await self._train(meter)
        self._emit(self.ended)
        self._changes.tell()

    async def _train(self, meter: Meter) -> SplitEnded:
        """Play all epochs, and take what sources have learned."""
        loss, accuracy, since_best, best = None, None, 0, math.inf
        reason: Literal["epochs done", "target accuracy reached", "no improvement"] = "epochs done"
        epoch = 0
        for epoch in range(1, self._job.epochs + 1):
            ended = await self._play(epoch, meter)
            if ended.loss is not None:
                loss, accuracy = ended.loss, ended.accuracy
                since_best = 0 if loss < best else since_best + 1
                best = min(best, loss)
            if self._job.target_accuracy is not None and (accuracy or 0) >= self._job.target_accuracy:
                reason = "target accuracy reached"
                break
            if self._job.stop_epochs and since_best >= self._job.stop_epochs:
                reason = "no improvement"
                break
        await self._meet_all(self._job.epochs + 1)
        self._around.save(epoch, self.state)
        return SplitEnded(at=self.now(), reason=reason, epochs=epoch, loss=loss, accuracy=accuracy)

    @property
    def state(self) -> State:
        """All that was learned, as far as the trunk has it."""
        assert self._scheme is not None
        return self._scheme.state()

    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._started

    async def farewell(self) -> None:
        await self._changes.until(lambda: self._roster.are_all_told, FAREWELL_SECONDS)

    async def _until_ready(self) -> None:
        wanted, told = self._job.sources, -1

        def are_enough() -> bool:
            nonlocal told
            num_ready = len(self._attendance.ready)
            if num_ready < wanted and num_ready != told:
                told = num_ready
                self._emit(WaitingForLearners(at=self.now(), round=0, num_ready=num_ready, min_learners=wanted))
            return num_ready >= wanted

        await self._changes.until(are_enough)

    async def _choose_cut(self) -> None:
        sources = self._attendance.ready
        told = [self._standings[name].costs for name in sources]
        costs = [cost for cost in told if cost is not None]
        chosen = await choose_cut(self._plan, sources, costs, self._engine)
        self._cut = chosen.cut
        self._emit(
            CutChosen(
                at=self.now(),
                cut=chosen.cut,
                expected_seconds=chosen.expected_seconds,
                num_parameters=self._plan.num_parameters(chosen.cut, sources),
            )
        )

    def _make_scheme(self) -> TrunkScheme:
        merged = self._attendance.ready
        for name in merged:
            self._standings[name].is_merged = True
        return trunk_scheme(self._plan, self._cut, merged, self._engine)

    async def _play(self, epoch: int, meter: Meter) -> SplitEpochEnded:
        assert self._scheme is not None
        self._take_in_and_let_go(epoch)
        meter.read()  # what came before is not of this epoch
        loop = asyncio.get_running_loop()
        start, busy, traffic = loop.time(), self._engine.busy_seconds, tuple(self._traffic)
        self._scheme.tally = Tally()
        self._attendance.num_masked = 0
        self._emit(PhaseStarted(at=self.now(), learner=NAME, round=epoch, phase="train"))
        trained_at = await self._meet_all(epoch)
        trained_at = await self._scheme.finish(epoch) or trained_at
        end, tally = loop.time(), self._scheme.tally
        sent, received = (now - before for now, before in zip(self._traffic, traffic, strict=True))
        used, compute = meter.read(sent + received), self._engine.busy_seconds - busy
        self._emit(
            NodeSpent(
                at=self.now(),
                learner=NAME,
                epoch=epoch,
                seconds=end - start,
                compute_seconds=compute,
                wait_seconds=max(0.0, end - start - compute),
                bytes_sent=sent,
                bytes_received=received,
                cpu_seconds=used.cpu_seconds,
                joules=used.joules,
            )
        )
        trained_at = end if trained_at is None else trained_at
        is_tested = bool(tally.num_tested) and self._around.is_evaluated
        ended = SplitEpochEnded(
            at=self.now(),
            epoch=epoch,
            seconds=trained_at - start,
            num_steps=tally.num_steps,
            num_samples=tally.num_samples,
            num_sources=sum(standing.status == "present" for standing in self._standings.values()),
            num_masked=self._attendance.num_masked,
            train_loss=None if tally.train_loss is None else tally.train_loss / tally.num_samples,
            test_seconds=end - trained_at,
            loss=tally.loss / tally.num_tested if is_tested else None,
            accuracy=tally.num_right / tally.num_tested if is_tested else None,
        )
        self._emit(ended)
        return ended

    def _take_in_and_let_go(self, epoch: int) -> None:
        """Before an epoch: newcomers are taken in, and who said goodbye is let go."""
        assert self._scheme is not None
        has_changed = False
        for name, standing in list(self._standings.items()):
            if standing.status == "left":
                if standing.is_merged and self._scheme.takes_newcomers:
                    self._scheme.remove(name)
                    has_changed = True
                    del self._standings[name]
            elif standing.is_ready and standing.status == "new":
                if not standing.is_merged and not self._scheme.takes_newcomers:
                    continue  # it is told when it asks again
                if not standing.is_merged:
                    self._scheme.add(name)
                    standing.is_merged = standing.has_lost = has_changed = True
                standing.status, standing.since = "present", (epoch, 0)
            elif standing.status == "present":
                standing.lead = max(1, standing.lead // 2)
        if has_changed and self._job.scheme == "fpl":
            sources = tuple(name for name, standing in self._standings.items() if standing.is_merged)
            num_parameters = self._scheme.num_merged()
            self._emit(JunctionChanged(at=self.now(), epoch=epoch, sources=sources, num_parameters=num_parameters))

    # Meetings.

    async def _meet_all(self, epoch: int) -> float | None:
        """Hold the meetings of an epoch; returns the loop's time after the last that was not about a test or a copy."""
        assert self._scheme is not None
        meetings = agenda(self._plan.terms(1, (self._cut,)), epoch)
        self._former = self._gathering
        gathering = self._gathering = Gathering(epoch, meetings, self._job.depth + 1)
        if self._former is not None:
            self._former.end()
        self._changes.tell()
        trained_at = None
        for index, meeting in enumerate(meetings):
            brought = await self._attendance.gather(gathering, index)
            if brought is None:
                break
            answers = await self._scheme.meet(epoch, meeting, brought) if brought else {}
            self._traffic[0] += sum(map(_num_bytes, answers.values()))
            gathering.answer(answers)
            if meeting.phase in ("step", "average"):
                trained_at = asyncio.get_running_loop().time()
        return trained_at

    # What sources call.

    async def join(self, source: str, version: str) -> Welcome:
        check_version(version)
        if source == NAME:
            raise ValueError(f"{NAME!r} cannot be a source's name; it is the trunk's")
        known = self._standings.get(source)
        self._check_not_too_late(known)
        member, is_back = self._roster.join(source)
        if known is None:
            known = self._attendance.add(source)
        else:
            self._attendance.mask(source, self._gathering, "it joined again")
            known.status = "masked" if known.is_merged else "new"
            known.has_lost, known.is_ready, known.is_asking = True, False, False
        self._emit(LearnerJoined(at=self.now(), learner=source, is_back=is_back))
        self._changes.tell()
        cuts = (self._cut,) if self._cut else self._plan.cuts
        return Welcome(session=member.session, number=known.number, terms=self._plan.terms(known.number, cuts))

    def _check_not_too_late(self, standing: Standing | None) -> None:
        is_merged = standing is not None and standing.is_merged
        if self._scheme is not None and not self._scheme.takes_newcomers and not is_merged:
            raise ValueError(f"training has begun, and {self._job.scheme} takes no further sources")

    async def echo(self, session: str, data: bytes, num_bytes: int) -> bytes:
        self._roster.find(session)
        if not 0 <= num_bytes <= MAX_ECHO_BYTES:
            raise ValueError(f"{num_bytes} bytes to give; 0 to {MAX_ECHO_BYTES} are given")
        return bytes(num_bytes)

    async def declare(self, session: str, costs: Costs) -> None:
        standing = self._standings[self._roster.find(session).name]
        if set(costs.cuts) != set(self._plan.cuts):
            raise ValueError(f"costs are of {', '.join(costs.cuts)}; they are to be of {', '.join(self._plan.cuts)}")
        figures = (costs.up_bytes_per_second, costs.down_bytes_per_second, costs.latency_seconds)
        seconds = [value for cost in costs.cuts.values() for value in (cost.forward_seconds, cost.backward_seconds)]
        if not all(value >= 0 and not math.isnan(value) for value in (*figures, *seconds)) or not all(figures[:2]):
            raise ValueError("costs must be at least 0, and rates above 0")
        standing.costs = costs

    async def next_epoch(self, session: str, after: int) -> Ticket:
        member = self._roster.find(session)
        standing = self._standings[member.name]
        if self.ended is None:
            self._check_not_too_late(standing)
        self._roster.set_ready(member, True)
        standing.is_ready = True
        self._changes.tell()
        ticket = self._ticket(member, after)
        if ticket is None:
            standing.is_asking = True
            await self._changes.until(lambda: self._ticket(member, after, is_taken=False) is not None, POLL_SECONDS)
            if self.ended is None:
                self._roster.find(session)  # raises, if another one has taken its place
            ticket = self._ticket(member, after)
        return ticket or Ticket(status="wait")

    def _ticket(self, member: Member, after: int, *, is_taken: bool = True) -> Ticket | None:
        """Where a source goes on; None if there is nothing to say yet."""
        if self.ended is not None:
            if is_taken:
                self._roster.remove(member)
                self._changes.tell()
            return Ticket(status="over", reason=self.ended.reason)
        standing, gathering = self._standings[member.name], self._gathering
        if gathering is None or gathering.epoch <= after:
            return None
        index = self._attendance.place_in(gathering, standing)
        if index is None:
            return None
        if not is_taken:
            return Ticket(status="wait")
        assert self._scheme is not None
        standing.is_asking = False
        if standing.status == "masked":
            standing.status, standing.since = "present", (gathering.epoch, index)
        parameters = self._scheme.parameters_for(member.name) if standing.has_lost else {}
        return Ticket(status="open", epoch=gathering.epoch, index=index, cut=self._cut, parameters=parameters)

    async def bring(self, session: str, epoch: int, index: int, tensors: dict[str, torch.Tensor] | None) -> Answer:
        name, gathering = self._roster.find(session).name, self._gathering
        if self._former is not None and self._former.epoch == epoch:
            gathering = self._former  # the last answer may have been lost
        if gathering is None or epoch > gathering.epoch:
            raise ValueError(f"epoch {epoch} has not begun")
        standing = self._standings[name]
        if epoch < gathering.epoch or standing.status != "present":
            return Answer(status="late")
        if not 0 <= index < len(gathering.meetings):
            raise ValueError(f"there is no meeting {index} of epoch {epoch}; there are {len(gathering.meetings)}")
        if tensors is not None and index >= gathering.index and not gathering.has(name, index):
            assert self._scheme is not None
            content = self._scheme.unpack(epoch, gathering.meetings[index], tensors)
            self._traffic[1] += _num_bytes(tensors)
            gathering.put(name, index, content)
            standing.has_lost = False  # not before: the ticket with its parameters may have been lost
            self._changes.tell()
        return await gathering.answer_to(name, index, POLL_SECONDS)

    async def leave(self, session: str) -> None:
        member = self._roster.find(session)
        self._roster.remove(member)
        standing = self._standings[member.name]
        standing.status, standing.is_ready = "left", False
        if self._gathering is not None:
            self._gathering.forget(member.name)
        self._emit(LearnerLeft(at=self.now(), learner=member.name, reason="it said goodbye"))
        self._changes.tell()

    def _emit(self, event: Event) -> None:
        self._around.emit(event)


def _num_bytes(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
