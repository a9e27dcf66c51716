"""The orchestrator of one job: a round opens for whoever is ready, and who comes later may still join it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable
from typing import NoReturn

from paceline.allocation import Candidate
from paceline.allocation.least_time import suggest_seconds
from paceline.devices.profiles import StateName
from paceline.errors import DiskError, DivergedError, PacelineError
from paceline.topologies.base import Environment, JobProgress, Outcome
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import RunEndReason
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.messages import Offer, Ticket
from paceline.topologies.parallel.orchestrator import LearnerSession, Orchestrator
from paceline.topologies.parallel.prepared import PreparedJob
from paceline.topologies.reporting.formatting import format_count
from paceline.topologies.sessions import POLL_SECONDS


class SingleJob(Orchestrator):
    """Trains one job.

    Args:
        first_round: later than 1 for a run that goes on.
    """

    def __init__(self, prepared: PreparedJob, env: Environment, first_round: int = 1) -> None:
        super().__init__(env)
        self._prepared = prepared
        self._training = JobTraining(prepared, env, self._changes, first_round)
        self._delivered: frozenset[str] = frozenset()  # who delivered in the last round

    async def run(self, address: str) -> None:
        training = self._training
        training.start()
        try:
            while training.why_over is None:
                await self._unless_suspended()
                await self._until_ready(training.num_closed + 1, self._prepared.job.min_learners)
                await self._unless_suspended()
                if not self.env.is_stopping():
                    await self._run_round()
        except DivergedError as error:
            await self._fail(error, "diverged")
        except DiskError as error:
            await self._fail(error, "not saved")
        if not training.has_trained and not self.env.is_stopping():
            await self._fail(PacelineError(self._why_nothing_was_trained()), "nothing trained")
        self._end(training.end(training.why_over).reason)

    async def _fail(self, error: PacelineError, reason: RunEndReason) -> NoReturn:
        """End the run with an error, once learners have heard of it."""
        self._training.end(reason)
        self._end(str(error))
        await self.drain()
        raise error

    def _why_nothing_was_trained(self) -> str:
        terms, policy = self._prepared.terms, self._prepared.job.allocation
        candidates = self._candidates(self._roster)
        least = min(
            (policy.least_deadline_seconds(terms, one) for one in candidates if one.profile is not None),
            default=math.inf,
        )
        hint = f" (least that works: {suggest_seconds(least)})" if math.isfinite(least) else ""
        rounds = format_count(self._training.num_closed, "round")
        return (
            f"nothing was trained in {rounds}: no update came by the deadline of "
            f"{terms.deadline_seconds:g} s; use a longer one{hint}, smaller shards or fewer local epochs"
        )

    async def _run_round(self) -> None:
        training, most = self._training, self._prepared.job.learners_per_round
        ready = self._roster.ready if most is None else self._draw(most)
        policy, allocation = self._prepared.job.allocation, None
        if policy.decided_by == "orchestrator":
            allocated = policy.allocate(self._prepared.terms, self._candidates(ready))
            allocation = dict(zip((session.name for session in ready), allocated, strict=True))
        num_ready = None if most is None else len(self._drawable)
        opened = training.open((session.name for session in ready), allocation, num_ready=num_ready)
        self._openings.notify()
        seconds = await training.wait_until_over(opened)
        for session in self._roster:
            if session.name in opened.awaited:
                self._roster.set_ready(session, False)
        await training.close(opened, seconds)
        self._delivered = frozenset(opened.delivered)
        self._exclude_failed(opened)
        for session in self._roster.count_missed():
            self._record(LearnerLeft, learner=session.name, reason="nothing was heard of it")

    def _candidates(self, sessions: Iterable[LearnerSession]) -> list[Candidate]:
        has_own_data = self._prepared.store is None
        return [session.as_candidate(has_own_data=has_own_data) for session in sessions]

    @property
    def _drawable(self) -> list[LearnerSession]:
        """Learners to draw from: those ready, and who has just delivered: it will be, and must not lose its chance."""
        return [session for session in self._roster if session.is_ready or session.name in self._delivered]

    def _draw(self, count: int) -> list[LearnerSession]:
        """Draw the learners of the next round, in the order of joining; the same from the same seed."""
        names = sorted(session.name for session in self._drawable)
        rng = random.Random(f"{self._prepared.job.seed}/{self._training.num_closed + 1}")
        drawn = set(rng.sample(names, min(count, len(names))))
        return [session for session in self._drawable if session.name in drawn]

    @property
    def outcome(self) -> Outcome:
        return self._training.outcome

    @property
    def min_left(self) -> int:
        return self._prepared.job.min_learners

    @property
    def _jobs(self) -> Iterable[JobTraining]:
        return (self._training,)

    def _training_of(self, session: LearnerSession) -> JobTraining:
        return self._training

    def _offer_first(self, session: LearnerSession) -> Offer:
        return self._prepared.offer

    def _progress_of(self, job: JobTraining) -> JobProgress:
        waits = job.num_closed == 0 and job.round is None
        return job.progress("over" if self._ended else "waiting" if waits else "running", self._roster.num_ready)

    async def next_round(self, session: str, after: int, state: StateName | None) -> Ticket:
        found = self._find(session)
        found.state = state
        self._roster.set_ready(found, True)
        opened = self._training.round
        if opened is not None and opened.number <= after:
            opened.give_up(found.name)  # it has delivered, or will not take part in this one
        self._changes.notify()
        loop = asyncio.get_running_loop()
        end = loop.time() + POLL_SECONDS
        while (ticket := self._ticket(found, after)) is None and (left := end - loop.time()) > 0:
            await self._wait_for_opening(found, left)
        return ticket or Ticket(status="wait", reason="no round is open")

    def _ticket(self, session: LearnerSession, after: int) -> Ticket | None:
        """Return a ticket to the round that is open, or to none any more; None if there is nothing to say yet."""
        if self._ended is not None:
            self._lose(session)
            self._roster.remove(session)
            return Ticket(status="over", round=self._training.num_closed, reason=self._ended)
        return self._ticket_to(self._training, session, after)
