"""A job under way: its parameters, the round that is open, what was taken of it and what came back.

It knows learners by name only. Who they are, and which of them take part in a round, is the orchestrator's business.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch

import paceline
from paceline.allocation import Allocation
from paceline.learning.audits import Auditor, Claim, Portion
from paceline.learning.averaging import State, UpdateValidator
from paceline.learning.local_model import LocalModel
from paceline.learning.shards import Shard, ShardSampler
from paceline.learning.vectors import Layout
from paceline.topologies.base import E, Environment, JobProgress, Outcome
from paceline.topologies.parallel import events
from paceline.topologies.parallel.messages import MAX_SERVED_SHARDS, MAX_SHARDS, Receipt, Work
from paceline.topologies.parallel.prepared import PreparedJob
from paceline.topologies.parallel.reserve import ShardReserve
from paceline.topologies.parallel.rounds import OpenRound, Share
from paceline.topologies.parallel.seeds import order_seed
from paceline.topologies.sessions import Changes


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
        loss: loss of the parameters on the test data, as is `accuracy`; None as long as they were not evaluated.
    """

    def __init__(self, prepared: PreparedJob, env: Environment, changes: Changes, first_round: int = 1) -> None:
        self.prepared = prepared
        self.round: OpenRound | None = None
        self.num_closed = first_round - 1
        self._job = prepared.job
        self._layout = Layout(prepared.state)
        self._parameters = self._layout.pack(prepared.state)
        self.env = env
        self._changes = changes
        self.loss: float | None = None
        self.accuracy: float | None = None
        self._opened_at: dict[int, float] = {}  # loop times of this and the last round, to time what comes late
        self._late: set[tuple[int, str]] = set()  # of the last round: round and learner
        self._sampler = self._benchmark_sampler = ShardSampler(prepared.terms.num_shards, (self._job.seed, 0))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._auditor = None
        if self._job.audit_rate and env.trains:  # where time is all that passes, nothing was trained
            model = LocalModel(prepared.task, allowed=None)
            self._auditor = Auditor(model=model, rate=self._job.audit_rate, chance=env.rng)

    @property
    def state(self) -> State:
        """Parameters after the last round that was closed."""
        return self._layout.unpack(self._parameters)

    @property
    def outcome(self) -> Outcome:
        """What was learned so far."""
        metrics = {"loss": self.loss, "accuracy": self.accuracy, "rounds": self.num_closed}
        return Outcome(self.state, metrics)

    @property
    def why_over(self) -> Literal["rounds done", "target accuracy reached"] | None:
        """Reason why there is no further round; None if there is one."""
        if self._job.is_reached_by(self.accuracy):
            return "target accuracy reached"
        return "rounds done" if self.num_closed >= self._job.rounds else None

    def start(self) -> None:
        """Record that learners may come."""
        self._record(
            events.RunStarted,
            job=self._job.described(),
            clock=self.env.clock,
            first_round=self.num_closed + 1,
            num_parameters=sum(vector.numel() for vector in self._parameters.values()),
            num_shards=self.prepared.num_served_shards,
            paceline=paceline.__version__,
        )

    def end(self, reason: Literal["rounds done", "target accuracy reached", "budget spent"]) -> events.RunEnded:
        """Record that the job is over."""
        return self._record(
            events.RunEnded, reason=reason, rounds=self.num_closed, loss=self.loss, accuracy=self.accuracy
        )

    # A round.

    def open(
        self, awaited: Iterable[str], allocation: Mapping[str, Allocation] | None, reserve: ShardReserve | None = None
    ) -> OpenRound:
        """Open the next round.

        Args:
            awaited: learners to wait for.
            allocation: shards and local epochs by learner, if the orchestrator decides.
            reserve: further shards, for whoever is done first.
        """
        number, deadline_seconds = self.num_closed + 1, self._job.deadline_seconds
        opened = OpenRound(
            number,
            self.time(),
            deadline_seconds,
            UpdateValidator(self._parameters),
            set(awaited),
            overtime_seconds=self._job.overtime * deadline_seconds,
            allocation=allocation,
            reserve=reserve,
        )
        self._sampler = ShardSampler(self.prepared.terms.num_shards, (self._job.seed, number))
        self._opened_at = {n: at for n, at in self._opened_at.items() if n == number - 1} | {number: opened.opened_at}
        self.round = opened
        num_learners = len(opened.awaited)
        self._record(events.RoundOpened, round=number, deadline_seconds=deadline_seconds, num_learners=num_learners)
        return opened

    async def wait_until_over(self, opened: OpenRound) -> float:
        """Wait until all updates of a round are in, or its time is up; returns how many seconds it took."""
        open_seconds = opened.deadline_seconds + opened.overtime_seconds
        await self._changes.until(lambda: opened.is_complete, open_seconds)
        return min(self.time() - opened.opened_at, open_seconds) if opened.is_complete else open_seconds

    async def close(self, closed: OpenRound, seconds: float) -> None:
        """Average what came, evaluate and save it; call it right after `wait_until_over`: no updates come then."""
        self.round = None
        self._late = {(closed.number, learner) for learner in closed.late}
        await self._audit(closed)
        if closed.average.num_states:
            self._parameters = closed.average.result(self._parameters)
        self.num_closed = closed.number
        await self._evaluate()
        await self.env.run_blocking(lambda: self.env.save(closed.number, self.state))
        fulfilment = closed.fulfilment(self.prepared.terms.shard_samples)
        self._record(
            events.RoundClosed,
            round=closed.number,
            seconds=seconds,
            truancy=(seconds - closed.deadline_seconds) / closed.deadline_seconds,
            num_learners=len(closed.shares),
            num_updates=len(closed.delivered),
            num_samples=round(closed.average.weight),
            num_shards=closed.num_shards,
            staleness=closed.staleness,
            average_staleness=closed.average_staleness,
            fulfilment=fulfilment,
            is_satisfied=fulfilment == 1.0 and seconds <= closed.deadline_seconds,
            occupancy=closed.occupancy(seconds),
            late=tuple(closed.late),
            loss=self.loss,
            accuracy=self.accuracy,
        )

    async def _audit(self, closed: OpenRound) -> None:
        """Train again what is to be audited, and take what is honest into the average."""
        auditor = self._auditor
        for learner, (parameters, num_samples) in closed.unaudited.items():
            assert auditor is not None
            share = closed.shares[learner]
            first, *further = [
                Portion(
                    [Shard(*arrays) for arrays in self.prepared.shards(numbers)],
                    order_seed(self.prepared.task.seed, closed.number, learner, portion),
                )
                for portion, numbers in enumerate(share.portions)
            ]
            claim = Claim(
                start=self._parameters,
                claimed=parameters,
                shards=first.shards,
                seed=first.seed,
                local_epochs=share.local_epochs,
                num_samples=num_samples,
                further=further,
            )
            verdict = await self.env.run_blocking(functools.partial(auditor.judge, claim))
            distance = verdict.distance if math.isfinite(verdict.distance) else None
            self._record(
                events.UpdateAudited,
                round=closed.number,
                learner=learner,
                distance=distance,
                is_honest=verdict.is_honest,
            )
            if verdict.is_honest:
                closed.average.add(parameters, num_samples)
            else:
                closed.fail_audit(learner)

    async def _evaluate(self) -> None:
        evaluate = self.prepared.evaluate
        if evaluate is not None and self.env.trains:
            self.loss, self.accuracy = await self.env.run_blocking(lambda: evaluate(self.state))

    # What learners do in it.

    def give_up(self, learner: str) -> None:
        """Do not wait for a learner any longer, if a round is open."""
        if self.round is not None:
            self.round.give_up(learner)
        self._changes.notify()

    def sample(self, num_shards: int, with_parameters: bool) -> Work:
        """Return something to measure with; raises `ValueError` for too much of it."""
        if not 0 <= num_shards <= self._job.benchmark_shards:
            raise ValueError(f"{num_shards} shards to measure with; allowed: 0 to {self._job.benchmark_shards}")
        shards = self.prepared.shards(self._benchmark_sampler.draw(num_shards))
        return Work(parameters=self._parameters if with_parameters else {}, shards=shards)

    def take(self, learner: str, round: int, num_shards: int) -> Work:
        """Hand parameters and shards to a learner; raises `ValueError` if it is too late, or asks for too much."""
        opened = self.round
        if opened is None or opened.number != round:
            raise ValueError(f"round {round} is not open{'' if opened is None else f', round {opened.number} is'}")
        allocated = opened.allocated_to(learner) or Allocation(MAX_SHARDS, self.prepared.terms.local_epochs)
        most = allocated.num_shards
        if not 0 < num_shards <= most:
            raise ValueError(f"{num_shards} shards cannot be taken; at least 1 and at most {most} can")
        share = opened.shares.get(learner)
        if share is None:
            share = opened.shares[learner] = self._draw_share(num_shards, allocated.local_epochs)
            opened.expect(learner)
            self._record(
                events.ShardsTaken,
                round=round,
                learner=learner,
                num_shards=share.num_shards,
                local_epochs=share.local_epochs,
                seconds=self.time() - opened.opened_at,
            )
        return Work(
            parameters=self._parameters,
            shards=self.prepared.shards(share.portions[0]),
            seconds_left=opened.due_at - self.time(),
            may_be_more=opened.reserve is not None,
        )

    def more(self, learner: str, round: int) -> Work:
        """Hand further shards to a learner that is done with its own, if there are any for it; no parameters."""
        opened = self.round
        share = opened.shares.get(learner) if opened is not None and opened.number == round else None
        if opened is None or share is None or opened.reserve is None or learner in opened.delivered:
            return Work(parameters={}, shards=[])
        seconds = self.time() - opened.opened_at
        count = opened.reserve.draw(learner, seconds)
        if not count:
            return Work(parameters={}, shards=[])
        extra = self._draw_share(count, share.local_epochs)
        share.add(extra)
        num_shards = extra.num_shards
        self._record(events.ShardsAdded, round=round, learner=learner, num_shards=num_shards, seconds=seconds)
        return Work(parameters={}, shards=self.prepared.shards(extra.portions[0]), may_be_more=True)

    def _draw_share(self, num_shards: int, local_epochs: int) -> Share:
        """Draw shards for one learner, at most as many as a message holds; of its own data, it draws them itself."""
        store = self.prepared.store
        if store is None:
            return Share([[]], num_shards, num_shards * self.prepared.terms.shard_samples, local_epochs)
        numbers = self._sampler.draw(min(num_shards, MAX_SERVED_SHARDS))
        return Share([numbers], len(numbers), sum(store[number].num_samples for number in numbers), local_epochs)

    def update(self, learner: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int) -> Receipt:
        """Take what a learner trained, if it can be used."""
        opened = self.round
        seconds = self.time() - self._opened_at[round] if round in self._opened_at else None
        if opened is None or opened.number != round:
            is_late = seconds is not None and (round, learner) in self._late
            reason = f"round {round} is closed" if seconds is not None else f"round {round} is not open"
            return self._refuse(learner, round, reason, seconds, is_late=is_late)
        assert seconds is not None
        audit = self._auditor is not None and self._auditor.is_chosen()
        why_not = opened.accept(learner, parameters, num_samples, seconds=seconds, audit=audit)
        self._changes.notify()
        if why_not is not None:
            return self._refuse(learner, round, why_not, seconds)
        self._record(events.UpdateAccepted, round=round, learner=learner, num_samples=num_samples, seconds=seconds)
        return Receipt(is_accepted=True)

    def _refuse(
        self, learner: str, round: int, reason: str, seconds: float | None, *, is_late: bool = False
    ) -> Receipt:
        self._late.discard((round, learner))
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
        return JobProgress(
            job=self._job.name,
            status=status,
            num_closed=self.num_closed,
            rounds=self._job.rounds,
            num_learners=num_learners,
            loss=self.loss,
            accuracy=self.accuracy,
        )
