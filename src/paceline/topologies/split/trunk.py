"""The trunk: holds the labels and what all sources have in common, and goes on without sources that are late."""

from __future__ import annotations

import asyncio
import functools
import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch

import paceline
from paceline.errors import DivergedError
from paceline.learning.averaging import State
from paceline.learning.divergence import diverged, has_exploded
from paceline.learning.saved_models import SavedModel
from paceline.learning.scores import Scores, fields_of, figures_of
from paceline.topologies.access import Proof
from paceline.topologies.base import Environment, Host, Outcome
from paceline.topologies.events import STOPPED, LearnerJoined, LearnerLeft, PhaseStarted, WaitingForLearners
from paceline.topologies.reporting.formatting import format_names
from paceline.topologies.saving import until_saved
from paceline.topologies.sessions import (
    DRAIN_SECONDS,
    POLL_SECONDS,
    SILENT,
    Changes,
    Roster,
    Session,
    check_version,
    padding,
)
from paceline.topologies.split import events, messages
from paceline.topologies.split.barrier import EpochBarrier
from paceline.topologies.split.cuts import choose_cut
from paceline.topologies.split.jobs import AUTO
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.presence import SILENCE, Presence, SourcesGone, SourceState
from paceline.topologies.split.resuming import EpochNotes, ResumedSplit, is_kept, kept, memory_name
from paceline.topologies.split.schedule import schedule_of
from paceline.topologies.split.schemes.averaging import AveragingAtTrunk
from paceline.topologies.split.schemes.base import EpochTotals, TrunkScheme
from paceline.topologies.split.schemes.branches import BranchesAtTrunk
from paceline.topologies.split.schemes.images import ImagesAtTrunk
from paceline.topologies.split.spending import Spending


class Trunk(Host, messages.TrunkService):
    """Trains a split job with whoever joins. `run` is its life; the service is for sources.

    Args:
        resumed: what an interrupted run goes on from.
    """

    calls: ClassVar[frozenset[str]] = messages.TrunkService.__abstractmethods__

    def __init__(self, prepared: PreparedSplit, env: Environment, resumed: ResumedSplit | None = None) -> None:
        super().__init__(env)
        self._resumed = resumed
        self._first_epoch = 1 if resumed is None else resumed.epoch + 1
        self._prepared = prepared
        self._job = prepared.job
        self._engine = env.machine.engine(prepared.operations.train)
        self._roster = Roster(Session, env.access, now=env.now)
        self._changes = Changes()
        self._presence = Presence(prepared.job, self._changes, env.emit, env.now)
        self._sources = self._presence.states
        if resumed is not None:
            self._presence.expect(resumed.sources)
        self._cut = prepared.cuts[0] if len(prepared.cuts) == 1 else "" if resumed is None else resumed.cut
        self._scheme: TrunkScheme | None = None
        self._barrier: EpochBarrier | None = None
        self._former: EpochBarrier | None = None
        self._bytes_sent = 0
        self._bytes_received = 0
        history = () if resumed is None else resumed.history
        self._scores: Scores | None = history[-1] if history else None  # of the last test
        self._lowest_loss = min((scores.loss for scores in history), default=None)
        self._early_stopping = self._job.early_stopping(history)
        self._num_epochs = self._first_epoch - 1
        self._started: events.SplitStarted | None = None
        self._is_suspended = self._has_open = False
        self._ended: events.SplitEnded | None = None

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.current_state(), self._figures)

    @property
    def _figures(self) -> dict[str, Any]:
        return {**figures_of(self._scores, self._prepared.metric_names), "epochs": self._num_epochs}

    @property
    def min_left(self) -> int:
        has_begun = self._scheme is not None or self._resumed is not None
        return 1 if has_begun else self._job.sources

    def status(self) -> dict[str, Any]:
        status = "waiting" if self._scheme is None else "running" if self._ended is None else "over"
        planned, num_sources = self._job.epochs, len(self._presence.ready)
        return {"status": status, **self._figures, "planned_epochs": planned, "num_sources": num_sources}

    def device_states(self) -> Mapping[str, int]:
        return Counter(source.status for source in self._sources.values())

    def current_state(self) -> State:
        if self._scheme is None:
            raise ValueError("training has not begun")
        return self._scheme.state()

    async def suspend(self) -> None:
        self._is_suspended = not self.env.is_stopping()
        self._changes.notify()
        await self._changes.until(lambda: not self._has_open)

    async def drain(self) -> None:
        await self._changes.until(lambda: self._roster.has_drained, DRAIN_SECONDS)

    # The life of a run.

    async def run(self, address: str) -> None:
        env, job = self.env, self._job
        names = [f"source {number}" for number in range(1, job.sources + 1)]
        sizes = {} if job.is_split and job.cut == AUTO else self._prepared.num_parameters(self._cut, names)
        version = paceline.__version__
        self._started = env.record(
            events.SplitStarted,
            job=job.described(),
            clock=env.clock,
            metric_names=self._prepared.metric_names,
            num_parameters=sizes,
            first_epoch=self._first_epoch,
            paceline=version,
        )
        if self._why_done is None:
            await self._until_ready()
        if job.is_split and not self._cut:
            await self._choose_cut()
        self._scheme = await self._engine.run(self._make_scheme, 0)
        env.record(
            events.NodeStarted,
            learner=events.TRUNK,
            number=0,
            power=env.machine.meter.described,
            device=env.machine.accelerator_name,
            precision=job.precision,
        )
        try:
            self._end(await self._train())
        except DivergedError:
            self._end("diverged")
            await self.drain()
            raise
        except SourcesGone:
            self._end("sources gone")
            raise

    def _end(self, reason: events.EndReason) -> None:
        self._ended = self.env.record(
            events.SplitEnded, reason=reason, epochs=self._num_epochs, **fields_of(self._scores)
        )
        self._changes.notify()

    @property
    def _why_done(self) -> events.EndReason | None:
        """Reason why there is no further epoch; None if there is one."""
        if self._early_stopping.reason is not None:
            return self._early_stopping.reason
        return "epochs done" if self._num_epochs >= self._job.epochs else None

    async def _train(self) -> events.EndReason:
        """Train all epochs, and take what sources have learned; returns why it is over."""
        reason = self._why_done
        if reason is None:
            while reason is None:
                await self._unless_suspended()
                await self._train_and_judge(self._num_epochs + 1)
                reason = self._why_done or (STOPPED if self.env.is_stopping() else None)
            await self._sync_all(self._job.epochs + 1)
        await until_saved(lambda: self.env.run_blocking(self._save_final))
        return reason

    async def _unless_suspended(self) -> None:
        """Go on to another epoch, or wait to be cancelled if there is to be none, once the last can be gone on from."""
        self._has_open = self._num_epochs >= self._first_epoch and not is_kept(self._job, self._num_epochs)
        if self._is_suspended and not self._has_open:
            self._changes.notify()
            await asyncio.get_running_loop().create_future()
        self._has_open = True

    async def _train_and_judge(self, epoch: int) -> None:
        ended = await self._train_epoch(epoch)
        self._num_epochs = epoch
        if ended.scores is None:
            return
        self._scores, loss = ended.scores, ended.scores.loss
        if has_exploded(loss, self._lowest_loss):
            where = f"epoch {epoch}, with {format_names(self._presence.ready)}"
            raise diverged(where, f"the loss is {loss:g}")
        self._lowest_loss = loss if self._lowest_loss is None else min(loss, self._lowest_loss)
        self._early_stopping.add(ended.scores)

    def _save_final(self) -> None:
        self.env.save("final", self.current_state(), self._saved_model())

    async def _save(self, ended: events.SplitEpochEnded) -> None:
        """Keep what a run needs to go on after an epoch; what was learned last: with it, all is."""
        scheme, started = self._scheme, self._started
        assert scheme is not None and started is not None
        sources = {name: source.number for name, source in self._sources.items() if source.is_merged}
        history = [*self._early_stopping.history, *([] if ended.scores is None else [ended.scores])]
        notes = EpochNotes(started=started, ended=ended, cut=self._cut, history=history)

        def save() -> None:
            self.env.save(memory_name(ended.epoch), kept(scheme.memory(), sources))
            self.env.save(ended.epoch, scheme.state(), self._saved_model(), notes.as_texts())

        await self.env.run_blocking(save)

    def _saved_model(self) -> SavedModel:
        job, training = self._job, self._prepared.training
        match job.scheme:
            case "images":
                return SavedModel(training=training)
            case "fpl":
                return SavedModel(training=training, cut=self._cut, junction=job.junction)
            case scheme:
                return SavedModel(training=training, why_not=f"a run of {scheme} learns parts that are no single model")

    async def _until_ready(self) -> None:
        wanted, reported = self._job.sources if self._resumed is None else len(self._resumed.sources), -1

        def are_enough() -> bool:
            nonlocal reported
            num_ready = len(self._presence.ready)
            if num_ready < wanted and num_ready != reported:
                reported = num_ready
                self.env.record(WaitingForLearners, round=0, num_ready=num_ready, min_learners=wanted)
            return num_ready >= wanted

        if self._resumed is None:
            await self._changes.until(are_enough)
            return
        await self._changes.until(lambda: are_enough() or bool(self._presence.ready))
        await self._changes.until(are_enough, SILENCE * self._job.patience_seconds)  # then without who does not return

    async def _choose_cut(self) -> None:
        sources = self._presence.ready
        declared = [self._sources[name].costs for name in sources]
        costs = [cost for cost in declared if cost is not None]
        chosen = await choose_cut(self._prepared, sources, costs, self._engine)
        self._cut = chosen.cut
        sizes = self._prepared.num_parameters(chosen.cut, sources)
        seconds = chosen.expected_seconds
        self.env.record(events.CutChosen, cut=chosen.cut, expected_seconds=seconds, num_parameters=sizes)

    def _make_scheme(self) -> TrunkScheme:
        if self._resumed is not None:
            scheme = self._scheme_of(list(self._resumed.sources))
            scheme.restore(self._resumed.state, self._resumed.memory)
            return scheme
        merged = self._presence.ready
        for name in merged:
            self._sources[name].is_merged = True
            self._sources[name].has_lost = self._prepared.start is not None  # its own parameters are initial ones
        return self._scheme_of(merged)

    def _scheme_of(self, merged: list[str]) -> TrunkScheme:
        match self._job.scheme:
            case "images":
                return ImagesAtTrunk(self._prepared, self._engine)
            case "gfl":
                return AveragingAtTrunk(self._prepared, merged)
            case _:
                return BranchesAtTrunk(self._prepared, self._cut, merged, self._engine)

    async def _train_epoch(self, epoch: int) -> events.SplitEpochEnded:
        assert self._scheme is not None
        env = self.env
        self._admit_and_remove(epoch)
        spending = Spending(self._engine, env.machine.meter, lambda: (self._bytes_sent, self._bytes_received))
        self._scheme.totals = EpochTotals()
        self._presence.num_masked = 0
        env.record(PhaseStarted, learner=events.TRUNK, round=epoch, phase="train")
        trained_at = await self._sync_all(epoch)
        trained_at = await self._scheme.finish(epoch) or trained_at
        end, totals = asyncio.get_running_loop().time(), self._scheme.totals
        describe = functools.partial(self._epoch_ended, epoch, spending.started, trained_at or end, end, totals)

        async def save() -> events.SplitEpochEnded:
            ended = describe()
            if is_kept(self._job, epoch):
                await self._save(ended)
            return ended

        ended = await until_saved(save)
        env.emit(spending.until_now(ended.at, events.TRUNK, epoch))
        env.emit(ended)
        return ended

    def _epoch_ended(
        self, epoch: int, started: float, trained_at: float, end: float, totals: EpochTotals
    ) -> events.SplitEpochEnded:
        """Describe an epoch that ends now."""
        return events.SplitEpochEnded(
            at=self.env.now(),
            epoch=epoch,
            seconds=trained_at - started,
            num_steps=totals.num_steps,
            num_samples=totals.num_samples,
            num_sources=sum(source.status == "present" for source in self._sources.values()),
            num_masked=self._presence.num_masked,
            train_loss=None if totals.train_loss is None else totals.train_loss / totals.num_samples,
            test_seconds=end - trained_at,
            **fields_of(totals.scores),
        )

    def _admit_and_remove(self, epoch: int) -> None:
        """Before an epoch, take in newcomers, and remove who said goodbye."""
        assert self._scheme is not None
        has_changed = False
        for name, source in list(self._sources.items()):
            if source.status == "left":
                if source.is_merged and self._scheme.takes_newcomers:
                    self._scheme.remove(name)
                    has_changed = True
                    del self._sources[name]
            elif source.is_ready and source.status == "new":
                if not source.is_merged and not self._scheme.takes_newcomers:
                    continue  # it is refused when it asks again
                if not source.is_merged:
                    self._scheme.add(name)
                    source.is_merged = source.has_lost = has_changed = True
                source.status, source.since = "present", (epoch, 0)
            elif source.status == "present":
                source.lead = max(1, source.lead // 2)
        if has_changed and self._job.scheme == "fpl":
            sources = tuple(name for name, source in self._sources.items() if source.is_merged)
            size = self._scheme.num_merged()
            self.env.record(events.JunctionChanged, epoch=epoch, sources=sources, num_parameters=size)

    async def _sync_all(self, epoch: int) -> float | None:
        """Go through the sync points of an epoch; returns the loop's time after the last that trained something."""
        assert self._scheme is not None
        points = schedule_of(self._prepared.terms(1, (self._cut,), self._first_epoch), epoch)
        self._former = self._barrier
        barrier = self._barrier = EpochBarrier(epoch, points, self._job.depth + 1)
        if self._former is not None:
            self._former.close()
        self._changes.notify()
        trained_at = None
        for index, point in enumerate(points):
            received = await self._presence.collect(barrier, index)
            if received is None:
                break
            replies = await self._scheme.process(epoch, point, received) if received else {}
            self._bytes_sent += sum(map(_num_bytes, replies.values()))
            barrier.reply(replies)
            if point.phase in ("step", "average"):
                trained_at = asyncio.get_running_loop().time()
        return trained_at

    # What sources call.

    async def join(self, source: str, version: str, proof: Proof | None = None) -> messages.SourceWelcome:
        check_version(version)
        if source == events.TRUNK:
            raise ValueError(f"{events.TRUNK!r} cannot be a source's name; it is the trunk's")
        for silent in self._roster.drop_silent():
            if not self._sources[silent.name].is_merged:
                del self._sources[silent.name]
            self.env.record(LearnerLeft, learner=silent.name, reason=SILENT)
        known = self._sources.get(source)
        self._check_not_too_late(known)
        session, is_back = self._roster.join(source, proof)
        if known is None:
            known = self._presence.add(source)
        else:
            self._presence.mask(source, self._barrier, "it joined again")
            # Before the first epoch of a run that goes on, nobody has missed anything.
            known.status = "masked" if known.is_merged and self._barrier is not None else "new"
            known.has_lost, known.is_ready, known.is_asking = True, False, False
        self.env.record(LearnerJoined, learner=source, is_back=is_back)
        self._changes.notify()
        cuts = (self._cut,) if self._cut else self._prepared.cuts
        return messages.SourceWelcome(
            session=session.key, number=known.number, terms=self._prepared.terms(known.number, cuts, self._first_epoch)
        )

    def _check_not_too_late(self, source: SourceState | None) -> None:
        is_merged = source is not None and source.is_merged
        if self._scheme is not None and not self._scheme.takes_newcomers and not is_merged:
            raise ValueError(f"training has begun, and {self._job.scheme} takes no further sources")

    async def echo(self, session: str, data: bytes, num_bytes: int) -> bytes:
        self._roster.find(session)
        return padding(num_bytes, messages.MAX_ECHO_BYTES)

    async def declare(self, session: str, costs: messages.Costs) -> None:
        source = self._sources[self._roster.find(session).name]
        cuts = self._prepared.cuts
        if set(costs.cuts) != set(cuts):
            raise ValueError(f"costs are of {', '.join(costs.cuts)}; they are to be of {', '.join(cuts)}")
        figures = (costs.up_bytes_per_second, costs.down_bytes_per_second, costs.latency_seconds)
        seconds = [value for cost in costs.cuts.values() for value in (cost.forward_seconds, cost.backward_seconds)]
        if not all(value >= 0 and not math.isnan(value) for value in (*figures, *seconds)) or not all(figures[:2]):
            raise ValueError("costs must be at least 0, and rates above 0")
        source.costs = costs

    async def next_epoch(self, session: str, after: int) -> messages.EpochTicket:
        found = self._roster.find(session)
        source = self._sources[found.name]
        if self._ended is None:
            self._check_not_too_late(source)
        self._roster.set_ready(found, True)
        source.is_ready = True
        self._changes.notify()
        ticket = self._ticket(found, after)
        if ticket is None:
            source.is_asking = True
            await self._changes.until(lambda: self._ticket(found, after, is_taken=False) is not None, POLL_SECONDS)
            if self._ended is None:
                self._roster.find(session)  # raises, if another one has taken its place
            ticket = self._ticket(found, after)
        return ticket or messages.EpochTicket(status="wait")

    def _ticket(self, session: Session, after: int, *, is_taken: bool = True) -> messages.EpochTicket | None:
        """Return where a source goes on; None if that is not known yet."""
        if self._ended is not None:
            if is_taken:
                self._roster.remove(session)
                self._changes.notify()
            return messages.EpochTicket(status="over", reason=self._ended.reason)
        source, barrier = self._sources[session.name], self._barrier
        if barrier is None or barrier.epoch <= after:
            return None
        index = self._presence.place_in(barrier, source)
        if index is None:
            return None
        if not is_taken:
            return messages.EpochTicket(status="wait")
        assert self._scheme is not None
        source.is_asking = False
        if source.status == "masked":
            source.status, source.since = "present", (barrier.epoch, index)
        parameters = self._scheme.parameters_for(session.name) if source.has_lost else {}
        return messages.EpochTicket(
            status="open", epoch=barrier.epoch, index=index, cut=self._cut, parameters=parameters
        )

    async def sync(
        self, session: str, epoch: int, index: int, tensors: dict[str, torch.Tensor] | None
    ) -> messages.SyncReply:
        name, barrier = self._roster.find(session).name, self._barrier
        if self._former is not None and self._former.epoch == epoch:
            barrier = self._former  # the last reply may have been lost
        if barrier is None or epoch > barrier.epoch:
            raise ValueError(f"epoch {epoch} has not begun")
        source = self._sources[name]
        if epoch < barrier.epoch or source.status != "present":
            return messages.SyncReply(status="late")
        if not 0 <= index < len(barrier.points):
            raise ValueError(f"there is no sync point {index} in epoch {epoch}; there are {len(barrier.points)}")
        if tensors is not None and index >= barrier.index and not barrier.has(name, index):
            assert self._scheme is not None
            content = self._scheme.unpack(epoch, barrier.points[index], tensors)
            self._bytes_received += _num_bytes(tensors)
            barrier.put(name, index, content)
            source.has_lost = False  # not before: the ticket with its parameters may have been lost
            self._changes.notify()
        return await barrier.reply_to(name, index, POLL_SECONDS)

    async def leave(self, session: str) -> None:
        self._part_with(self._roster.find(session), "it said goodbye")

    def connected(self) -> Collection[str]:
        return [session.name for session in self._roster]

    def dismiss(self, name: str, reason: str) -> None:
        session = self._roster.named(name)
        if session is not None:
            self._part_with(session, reason)

    def _part_with(self, session: Session, reason: str) -> None:
        self._roster.remove(session)
        source = self._sources[session.name]
        source.status, source.is_ready = "left", False
        if self._barrier is not None:
            self._barrier.discard(session.name)
        self.env.record(LearnerLeft, learner=session.name, reason=reason)
        self._changes.notify()


def _num_bytes(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
