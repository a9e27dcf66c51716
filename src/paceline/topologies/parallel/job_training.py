"""A job under way: its parameters, the round that is open, what was taken of it and what came back.

It knows learners by name only. Who they are, and which of them take part in a round, is the orchestrator's business.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch

import paceline
from paceline.allocation import Allocation
from paceline.errors import DiskError
from paceline.learning.aggregation import LimitedCollector
from paceline.learning.audits import Auditor, Claim, Portion, Verdict
from paceline.learning.averaging import State
from paceline.learning.local_model import LocalModel
from paceline.learning.privacy import PrivacyAccount
from paceline.learning.privacy.masks import masked_size
from paceline.learning.scores import LOSS, Scores, fields_of, figures_of
from paceline.learning.shards import Array, Shard, ShardSampler
from paceline.topologies.base import E, Environment, JobProgress, Outcome
from paceline.topologies.events import STOPPED, StateLost
from paceline.topologies.parallel import events
from paceline.topologies.parallel.late_updates import LateUpdates
from paceline.topologies.parallel.learned_model import LearnedModel
from paceline.topologies.parallel.masking import AGREEING_PART, Masking
from paceline.topologies.parallel.messages import MAX_SERVED_SHARDS, MAX_SHARDS, Declaration, Receipt, Work
from paceline.topologies.parallel.prepared import PreparedJob
from paceline.topologies.parallel.reserve import ShardReserve
from paceline.topologies.parallel.resuming import RoundNotes
from paceline.topologies.parallel.rounds import OpenRound, Share, TrainedShare
from paceline.topologies.parallel.seeds import order_seed
from paceline.topologies.saving import SAVING_SECONDS, until_saved
from paceline.topologies.sessions import Changes

_MAX_REFUSALS = 20  # of a learner in a round that are recorded: whoever repeats itself must not fill the disk


class JobTraining:
    """The rounds of a job, one after the other.

    Args:
        changes: notified whenever something happens that a round may wait for.
        first_round: later than 1 for a run that goes on.

    Attributes:
        prepared: what is trained.
        env: where its events are recorded and its model is saved.
        round: the round that is open.
        num_closed: number of the last round that was closed.
    """

    def __init__(self, prepared: PreparedJob, env: Environment, changes: Changes, first_round: int = 1) -> None:
        self.prepared = prepared
        self.round: OpenRound | None = None
        self._is_closing = False
        self.num_closed = first_round - 1
        self._job = prepared.job
        self._layout = prepared.model.layout
        self._model = LearnedModel(prepared, env, has_trained=first_round > 1)
        self._buffers = prepared.model.buffers()
        self.env = env
        self._changes = changes
        self._privacy = PrivacyAccount(self._job.privacy, prepared.num_rounds)
        self._opened_at: dict[int, float] = {}  # loop times of this and the last round, to time what comes late
        self._aggregation = self._job.aggregation
        self._num_refused: Counter[str] = Counter()  # of each learner, since the last round opened
        self._reading = asyncio.Lock()
        self._late = LateUpdates(self._aggregation, first_round, prepared.compression)
        self._sampler = self._benchmark_sampler = ShardSampler(prepared.terms.num_shards, (self._job.seed, 0))
        self._loop: asyncio.AbstractEventLoop | None = None
        prepared.model.move_to(env.machine.accelerator)
        self._auditor = None
        if self._job.audit_rate and env.trains:  # where time is all that passes, nothing was trained
            model = LocalModel(prepared.training, allowed=None)
            model.load(prepared.state)
            self._auditor = Auditor(model=model, rate=self._job.audit_rate, chance=env.rng)

    @property
    def state(self) -> State:
        """Parameters after the last round that was closed; those that do not travel are as at the start."""
        return self._model.state

    @property
    def scores(self) -> Scores | None:
        """What the parameters achieve on the test data; None as long as they were not evaluated."""
        return self._model.scores

    @property
    def has_trained(self) -> bool:
        """Whether any update has counted."""
        return self._model.has_trained

    @property
    def outcome(self) -> Outcome:
        """What was learned so far."""
        return Outcome(self.state, {**self._figures, "rounds": self.num_closed})

    @property
    def _figures(self) -> dict[str, float | None]:
        return figures_of(self.scores, self.prepared.model.metric_names)

    @property
    def why_over(self) -> events.RunEndReason | None:
        """Reason why there is no further round; None if there is one."""
        if self.env.is_stopping():
            return STOPPED
        if self._model.early_stopping.reason is not None:
            return self._model.early_stopping.reason
        if self._privacy.is_spent:
            return "privacy budget spent"
        return "rounds done" if self.num_closed >= self._job.rounds else None

    @property
    def is_in_round(self) -> bool:
        """Whether a round is open, or not yet saved."""
        return self.round is not None or self._is_closing

    def start(self) -> None:
        """Record that learners may come."""
        self._started = self._record(
            events.RunStarted,
            job=self._job.described(),
            clock=self.env.clock,
            metric_names=self.prepared.model.metric_names,
            first_round=self.num_closed + 1,
            num_parameters=sum(vector.numel() for vector in self._model.parameters.values()),
            num_shards=self.prepared.num_served_shards,
            paceline=paceline.__version__,
        )

    def end(self, reason: events.RunEndReason) -> events.RunEnded:
        """Record that the job is over; the best model is in its last checkpoints, if it cannot be saved once more."""
        try:
            self._model.save_best()
        except DiskError as error:
            self._record(StateLost, what=f"the copy of the best model: {error}")
        return self._record(events.RunEnded, reason=reason, rounds=self.num_closed, **fields_of(self.scores))

    # A round.

    def open(
        self,
        awaited: Iterable[str],
        allocation: Mapping[str, Allocation] | None,
        reserve: ShardReserve | None = None,
        num_ready: int | None = None,
    ) -> OpenRound:
        """Open the next round.

        Args:
            awaited: learners to wait for.
            allocation: shards and local epochs by learner, if the orchestrator decides.
            reserve: further shards, for whoever is done first.
            num_ready: number of learners that those awaited were drawn from; None if they were not drawn.
        """
        number, deadline_seconds = self.num_closed + 1, self._job.deadline_seconds
        opened = OpenRound(
            number,
            self.time(),
            deadline_seconds,
            self._model.validator,
            self._aggregation,
            self._collector(),
            set(awaited),
            batch_size=self._job.batch_size,
            overtime_seconds=self._job.overtime * deadline_seconds,
            allocation=allocation,
            reserve=reserve,
            compression=self.prepared.compression,
            privacy=self._job.privacy,
            rng=self.env.rng,
            unmasking_seconds=deadline_seconds - self._job.update_seconds,
            masking=self._begin_masking(),
            max_learners=self._job.learners_per_round,
        )
        self._sampler = ShardSampler(self.prepared.terms.num_shards, (self._job.seed, number))
        self._opened_at = {n: at for n, at in self._opened_at.items() if n >= number - self._late.max_rounds}
        self._opened_at[number] = opened.opened_at
        self._num_refused.clear()
        self.round = opened
        self._record(
            events.RoundOpened,
            round=number,
            deadline_seconds=deadline_seconds,
            num_learners=len(opened.awaited),
            num_ready=num_ready,
            drawn=() if num_ready is None else tuple(sorted(opened.awaited)),
        )
        return opened

    def _collector(self) -> LimitedCollector:
        """Begin to collect the updates of a round; under privacy's own limits, or where none trains, without others."""
        is_limiting = not self._job.privacy.is_on and self.env.trains
        return LimitedCollector(
            self._aggregation, self._layout, self._buffers, self._model.parameters, is_limiting=is_limiting
        )

    async def wait_until_over(self, opened: OpenRound) -> float:
        """Wait until all updates of a round are in, or its time is up; returns how many seconds it took."""
        open_seconds = opened.deadline_seconds + opened.overtime_seconds
        if opened.masking is not None:
            await self._agree_on_masks(opened, opened.masking)
        await self._until(opened, lambda: opened.is_complete, open_seconds - opened.unmasking_seconds)
        if opened.masking is not None:
            await self._hear_of_masks(opened, opened.masking, open_seconds)
        return min(self.time() - opened.opened_at, open_seconds) if opened.is_complete else open_seconds

    async def _until(self, opened: OpenRound, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until something is so, or for so long from when the round opened."""
        await self._changes.until(is_so, opened.opened_at + seconds - self.time())

    # Masks, if updates are summed under such.

    def _begin_masking(self) -> Masking | None:
        is_wanted = self._job.privacy.secure_aggregation
        return Masking(masked_size(self._model.parameters), self._changes.notify) if is_wanted else None

    async def _agree_on_masks(self, opened: OpenRound, masking: Masking) -> None:
        """Wait until all have shown their keys, then until those who did have shared their secrets."""
        part_seconds = AGREEING_PART * opened.deadline_seconds
        await self._until(opened, lambda: masking.have_shown(opened.awaited), part_seconds)
        masking.close_showing()
        await self._until(opened, lambda: masking.have_all_shared, 2 * part_seconds)
        masking.close_sharing()
        for name in opened.awaited.difference(masking.sharing):
            opened.give_up(name)

    async def _hear_of_masks(self, opened: OpenRound, masking: Masking, open_seconds: float) -> None:
        """Tell learners whose updates came, and wait until enough have helped to unmask them."""
        masking.close_updates(opened.delivered)
        await self._until(opened, lambda: masking.can_unmask, open_seconds)

    def masking(self, round: int) -> Masking:
        """Return the masks of the round that is open; raises `ValueError` if it is another, or has none."""
        if self.round is None or self.round.number != round or self.round.masking is None:
            raise ValueError(f"round {round} is not open, or has no masks")
        return self.round.masking

    async def _unmask(self, closed: OpenRound) -> None:
        """Have the sum of what was masked count; if that cannot be, all of it is lost."""
        if closed.masking is None or not closed.delivered:
            return
        reason = await self.env.run_blocking(closed.unmask)
        if reason is not None:
            for learner in closed.lose():
                self._refuse(learner, closed.number, f"the sum that it is in cannot be used: {reason}", None)

    async def close(self, closed: OpenRound, seconds: float, settle: Callable[[], None] = lambda: None) -> None:
        """Aggregate what came, evaluate and save it; call it right after `wait_until_over`: no updates come then.

        A round that made the model far worse is rolled back. Raises `DivergedError`, and keeps the model as it was, if
        there is nothing to go back to, or too many rounds in a row are ruined; and `DiskError` if it cannot be saved.

        Args:
            settle: called when it is known what counts, before anything is saved: so what is closed is settled.
        """
        self.round, self._is_closing = None, True
        try:
            await self._close(closed, seconds, settle)
        finally:
            self._is_closing = False

    async def _close(self, closed: OpenRound, seconds: float, settle: Callable[[], None]) -> None:
        kept = self._late.close(closed)
        if closed.has_diverged and not kept:
            self._model.bear(closed, closed.diverged, next(iter(closed.diverged.values())))
        await self._audit(closed)
        self._privacy.add(closed.delivered)
        await self._unmask(closed)
        num_kept = await self._count_late(closed, kept)
        settle()
        start_of_run = self.time() - self.env.now()
        describe = functools.partial(self._closing, closed, seconds, num_kept, start_of_run)
        rolled_back, saved = await self.env.run_blocking(lambda: self._finish(closed, describe))
        self._report_limits(closed)
        if rolled_back is not None:
            self._record(events.RoundRolledBack, **rolled_back)
        if isinstance(saved, DiskError):
            saved = await self._save_patiently(closed.number, describe, saved)
        self.num_closed = closed.number
        self.env.emit(saved)

    def _closing(self, closed: OpenRound, seconds: float, num_kept: int, start_of_run: float) -> events.RoundClosed:
        """Describe a round that closes now; from a thread, too."""
        fulfilment = closed.fulfilment(self.prepared.terms.shard_samples)
        return events.RoundClosed(
            at=round(self.time() - start_of_run, 6),
            round=closed.number,
            seconds=seconds,
            truancy=(seconds - closed.deadline_seconds) / closed.deadline_seconds,
            num_learners=len(closed.shares),
            num_updates=len(closed.delivered),
            num_samples=closed.num_samples,
            num_shards=closed.num_shards,
            staleness=closed.staleness,
            average_staleness=closed.average_staleness,
            fulfilment=fulfilment,
            is_satisfied=fulfilment == 1.0 and seconds <= closed.deadline_seconds,
            occupancy=closed.occupancy(seconds),
            late=tuple(closed.late),
            num_kept=num_kept,
            down_bytes=closed.down_bytes,
            up_bytes=closed.up_bytes,
            epsilon=self._privacy.epsilon,
            **fields_of(self.scores),
        )

    def _finish(
        self, closed: OpenRound, describe: Callable[[], events.RoundClosed]
    ) -> tuple[dict[str, Any] | None, events.RoundClosed | DiskError]:
        """Aggregate, evaluate and save: all at once, for going to a thread and back costs more than small models do.

        Returns the fields of a `RoundRolledBack`, if what the round led to is not kept, and what came of saving.
        """
        rolled_back = self._model.follow(closed)
        return rolled_back, self._save(describe())

    def _report_limits(self, closed: OpenRound) -> None:
        """Record which updates count for less than they came with."""
        for learner, num_samples in closed.delivered.items():
            most = closed.shares[learner].num_plausible
            if num_samples > most:
                self._record(
                    events.ClaimLimited,
                    round=closed.number,
                    learner=learner,
                    num_samples=num_samples,
                    num_plausible=int(most),
                )
        for one in closed.collector.contributions:
            if one.is_limited:
                self._record(
                    events.UpdateLimited,
                    round=closed.number,
                    learner=one.learner,
                    weight=one.counted_weight / one.weight,
                    part=one.part,
                    norm=one.norm,
                    distance=one.distance,
                )

    def _save(self, closed: events.RoundClosed) -> events.RoundClosed | DiskError:
        """Save a round; returns it, or why that cannot be."""
        notes = RoundNotes.of(self._started, closed, self._model.early_stopping.history, self._privacy.num_rounds)
        try:
            self._model.save(closed.round, notes.as_texts())
        except DiskError as error:
            return error
        return closed

    async def _save_patiently(
        self, number: int, describe: Callable[[], events.RoundClosed], error: DiskError
    ) -> events.RoundClosed:
        """Try for a while to save a round that could not be; raises the last `DiskError`."""
        self._record(events.SavingFailed, round=number, reason=str(error), patience_seconds=SAVING_SECONDS)

        async def save() -> events.RoundClosed:
            saved: events.RoundClosed | DiskError = await self.env.run_blocking(lambda: self._save(describe()))
            if isinstance(saved, DiskError):
                raise saved
            return saved

        return await until_saved(save)

    async def _count_late(self, closed: OpenRound, updates: Iterable[TrainedShare]) -> int:
        """Have late updates of earlier rounds count in the one that closes; returns how many do."""
        num_counted = 0
        for late in updates:
            if late.audit and not await self._is_honest(late):
                closed.fail_audit(late.learner)
            if late.learner not in closed.failed_audit:
                parameters = self._late.rebased(late, self._model.parameters, closed.number)
                closed.count(late.learner, parameters, late.share, late.num_samples)
                num_counted += 1
        return num_counted

    async def _audit(self, closed: OpenRound) -> None:
        """Train again what is to be audited, and have what is honest count."""
        for learner, (parameters, num_samples) in closed.unaudited.items():
            share = closed.shares[learner]
            trained = TrainedShare(learner, closed.number, share, self._model.parameters, parameters, num_samples)
            if await self._is_honest(trained):
                closed.count(learner, parameters, share, num_samples)
            else:
                closed.fail_audit(learner)

    async def _is_honest(self, trained: TrainedShare) -> bool:
        """Train a share again, to see whether the work was done."""
        assert self._auditor is not None
        share, round, learner = trained.share, trained.round, trained.learner
        first, *further = [
            Portion(
                [Shard(*arrays) for arrays in await self._read(numbers)],
                order_seed(self.prepared.training.seed, round, learner, portion),
            )
            for portion, numbers in enumerate(share.portions)
        ]
        claim = Claim(
            start=trained.start,
            claimed=trained.parameters,
            shards=first.shards,
            seed=first.seed,
            local_epochs=share.local_epochs,
            num_samples=trained.num_samples,
            round=round,
            further=further,
        )
        verdict: Verdict = await self.env.run_blocking(functools.partial(self._auditor.judge, claim))
        distance = verdict.distance if math.isfinite(verdict.distance) else None
        self._record(events.UpdateAudited, round=round, learner=learner, distance=distance, is_honest=verdict.is_honest)
        return verdict.is_honest

    # What learners do in it.

    def give_up(self, learner: str) -> None:
        """Do not wait for a learner any longer, if a round is open."""
        if self.round is not None:
            self.round.give_up(learner)
        self._changes.notify()

    async def sample(self, num_shards: int, with_parameters: bool) -> Work:
        """Return something to measure with; raises `ValueError` for too much of it."""
        if not 0 <= num_shards <= self._job.benchmark_shards:
            raise ValueError(f"{num_shards} shards to measure with; allowed: 0 to {self._job.benchmark_shards}")
        shards = await self._read(self._benchmark_sampler.draw(num_shards))
        return Work(parameters=self._model.parameters if with_parameters else {}, shards=shards)

    async def take(
        self,
        learner: str,
        round: int,
        num_shards: int,
        num_samples: int | None = None,
        declared: Declaration | None = None,
    ) -> Work:
        """Hand parameters and shards to a learner; raises `ValueError` if it is too late, or asks for too much.

        Args:
            num_samples: samples in the shards, where they are the learner's own; None if all are full.
            declared: what it declared about itself; None for nothing.
        """
        opened = self.round
        if opened is None or opened.number != round:
            raise ValueError(f"round {round} is not open{'' if opened is None else f', round {opened.number} is'}")
        if not opened.has_place_for(learner):
            raise ValueError(f"{learner} was not drawn for round {round}")
        allocated = opened.allocated_to(learner) or Allocation(MAX_SHARDS, self.prepared.terms.local_epochs)
        most = min(allocated.num_shards, self._num_own_shards(declared))
        if not 0 < num_shards <= most:
            raise ValueError(f"{num_shards} shards cannot be taken; at least 1 and at most {most} can")
        share = opened.shares.get(learner)
        if share is None:
            share = opened.shares[learner] = self._draw_share(num_shards, allocated.local_epochs, num_samples)
            share.taken_seconds = self.time() - opened.opened_at
            share.samples_per_second = math.inf if declared is None else declared.samples_per_second
            opened.expect(learner)
            self._record(
                events.ShardsTaken,
                round=round,
                learner=learner,
                num_shards=share.num_shards,
                local_epochs=share.local_epochs,
                seconds=self.time() - opened.opened_at,
            )
        parameters = self._model.parameters  # of this round, whatever comes while shards are read
        work = Work(
            parameters=parameters,
            shards=await self._read(share.portions[0]),
            seconds_left=opened.due_at - self.time(),
            may_be_more=opened.reserve is not None,
        )
        opened.down_bytes += work.num_bytes
        return work

    def _num_own_shards(self, declared: Declaration | None) -> int:
        """Return how many shards of its own a learner has, as it declared; where data is served, any number."""
        if self.prepared.store is not None:
            return MAX_SHARDS
        if declared is None or declared.num_shards is None:
            raise ValueError("how many shards of its own a learner has is to be declared before it takes any")
        return declared.num_shards

    async def more(self, learner: str, round: int, num_portions: int) -> Work:
        """Hand further shards to a learner that is done with its own, if there are any for it; no parameters.

        Args:
            num_portions: portions that it has had: one that was lost on its way is handed out again.
        """
        opened = self.round
        share = opened.shares.get(learner) if opened is not None and opened.number == round else None
        if opened is None or share is None or opened.reserve is None or learner in opened.delivered:
            return Work(parameters={}, shards=[])
        if 0 < num_portions < len(share.portions):
            return await self._portion(opened, share.portions[num_portions])
        seconds = self.time() - opened.opened_at
        count = opened.reserve.draw(learner, seconds)
        if not count:
            return Work(parameters={}, shards=[])
        extra = self._draw_share(count, share.local_epochs)
        share.add(extra)
        num_shards = extra.num_shards
        self._record(events.ShardsAdded, round=round, learner=learner, num_shards=num_shards, seconds=seconds)
        return await self._portion(opened, extra.portions[0])

    async def _portion(self, opened: OpenRound, numbers: list[int]) -> Work:
        work = Work(parameters={}, shards=await self._read(numbers), may_be_more=True)
        opened.down_bytes += work.num_bytes
        return work

    async def _read(self, numbers: list[int]) -> list[list[Array]]:
        """Return shards as they are sent; where they have to be read, that is done in a thread, by turns."""
        if self.prepared.store is None or self.prepared.store.is_in_memory:
            return self.prepared.shards(numbers)
        async with self._reading:
            read: list[list[Array]] = await self.env.run_blocking(lambda: self.prepared.shards(numbers))
        return read

    def _draw_share(self, num_shards: int, local_epochs: int, num_samples: int | None = None) -> Share:
        """Draw shards for one learner, at most as many as a message holds; of its own data, it draws them itself."""
        store = self.prepared.store
        if store is None:
            most = num_shards * self.prepared.terms.shard_samples
            num_samples = most if num_samples is None else num_samples
            if not 0 < num_samples <= most:
                raise ValueError(f"{num_samples} samples cannot be in {num_shards} shards; allowed: 1 to {most}")
            return Share([[]], num_shards, num_samples, local_epochs)
        numbers = self._sampler.draw(min(num_shards, MAX_SERVED_SHARDS))
        return Share([numbers], len(numbers), sum(map(store.num_samples, numbers)), local_epochs)

    def update(self, learner: str, round: int, sent: dict[str, torch.Tensor], num_samples: int) -> Receipt:
        """Take what a learner trained, as it was sent, if it can be used."""
        opened = self.round
        if opened is not None:
            opened.up_bytes += sum(vector.nbytes for vector in sent.values())
        seconds = self.time() - self._opened_at[round] if round in self._opened_at else None
        if seconds is not None and self._late.is_late(learner, round):
            return self._update_late(learner, round, sent, num_samples, seconds)
        if opened is None or opened.number != round:
            reason = f"round {round} is closed" if seconds is not None else f"round {round} is not open"
            return self._refuse(learner, round, reason, seconds)
        assert seconds is not None
        audit = self._auditor is not None and self._auditor.is_chosen()
        why_not = opened.accept(learner, sent, num_samples, seconds=seconds, audit=audit)
        self._changes.notify()
        if why_not is not None:
            return self._refuse(learner, round, why_not, seconds)
        self._record(events.UpdateAccepted, round=round, learner=learner, num_samples=num_samples, seconds=seconds)
        return Receipt(is_accepted=True)

    def _update_late(
        self, learner: str, round: int, sent: dict[str, torch.Tensor], num_samples: int, seconds: float
    ) -> Receipt:
        """Keep an update that came after its round closed for the next one, if the job says so and there is one."""
        late = self._late
        if self._aggregation.late == "drop" or late.counts_in > self._job.rounds or self.why_over is not None:
            late.drop(learner, round)
            return self._refuse(learner, round, f"round {round} is closed", seconds, is_late=True)
        audit = self._auditor is not None and self._auditor.is_chosen()
        part = late.part_counted(round)
        why_not = late.accept(learner, round, sent, num_samples, seconds=seconds, audit=audit)
        if why_not is not None:
            return self._refuse(learner, round, why_not, seconds)
        self._record(
            events.UpdateKept,
            round=round,
            learner=learner,
            counts_in=late.counts_in,
            part=part,
            num_samples=num_samples,
            seconds=seconds,
        )
        return Receipt(is_accepted=True)

    def diverge(self, learner: str, round: int, shown_by: str) -> None:
        """Take note that a learner hands in nothing, because its training diverged."""
        opened = self.round
        if opened is not None and opened.number == round and learner in opened.shares:
            self._refuse(learner, round, opened.diverge(learner, shown_by), self.time() - opened.opened_at)
            self._changes.notify()

    def _refuse(
        self, learner: str, round: int, reason: str, seconds: float | None, *, is_late: bool = False
    ) -> Receipt:
        self._num_refused[learner] += 1
        if self._num_refused[learner] > _MAX_REFUSALS:
            return Receipt(is_accepted=False, reason=reason)
        self._record(
            events.UpdateRefused, round=round, learner=learner, reason=reason, seconds=seconds, is_late=is_late
        )
        return Receipt(is_accepted=False, reason=reason)

    # Time.

    def time(self) -> float:
        """Loop time in seconds."""
        if self._loop is None:  # to ask for it each time would take longer than all the rest of this
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _record(self, kind: type[E], **fields: Any) -> E:
        return self.env.record(kind, digits=6, **fields)

    def progress(self, status: Literal["waiting", "running", "over"], num_learners: int) -> JobProgress:
        """Return how far the job is."""
        figures = self._figures
        return JobProgress(
            job=self._job.name,
            status=status,
            num_closed=self.num_closed,
            rounds=self._job.rounds,
            num_learners=num_learners,
            loss=figures.pop(LOSS),
            metrics=figures,
        )
