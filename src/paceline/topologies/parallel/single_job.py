"""The orchestrator of one job: a round opens for whoever is ready, and who comes later may still join it."""

from __future__ import annotations

from collections.abc import Iterable

from paceline.topologies.base import Environment, JobProgress, Outcome
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.messages import Offer, Ticket
from paceline.topologies.parallel.orchestrator import LearnerSession, Orchestrator
from paceline.topologies.parallel.prepared import PreparedJob
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

    async def run(self, address: str) -> None:
        training = self._training
        training.start()
        while training.why_over is None:
            await self._until_ready(training.num_closed + 1, self._prepared.job.min_learners)
            await self._run_round()
        self._end(training.end(training.why_over).reason)

    async def _run_round(self) -> None:
        training, ready = self._training, self._roster.ready
        policy, allocation = self._prepared.job.allocation, None
        if policy.decided_by == "orchestrator":
            allocated = policy.allocate(self._prepared.terms, [session.as_candidate() for session in ready])
            allocation = dict(zip((session.name for session in ready), allocated, strict=True))
        opened = training.open((session.name for session in ready), allocation)
        self._openings.notify()
        seconds = await training.wait_until_over(opened)
        for session in self._roster:
            if session.name in opened.awaited:
                self._roster.set_ready(session, False)
        await training.close(opened, seconds)
        self._exclude_failed(opened)
        for session in self._roster.count_missed():
            self._record(LearnerLeft, learner=session.name, reason="nothing was heard of it")

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

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        found = self._find(session)
        found.state = state
        self._roster.set_ready(found, True)
        opened = self._training.round
        if opened is not None and opened.number <= after:
            opened.give_up(found.name)  # it has delivered, or will not take part in this one
        self._changes.notify()
        ticket = self._ticket(found, after)
        if ticket is None:
            await self._wait_for_opening(found, POLL_SECONDS)
            ticket = self._ticket(found, after)
        return ticket or Ticket(status="wait", reason="no round is open")

    def _ticket(self, session: LearnerSession, after: int) -> Ticket | None:
        """Return a ticket to the round that is open, or to none any more; None if there is nothing to say yet."""
        if self._ended is not None:
            self._lose(session)
            self._roster.remove(session)
            return Ticket(status="over", round=self._training.num_closed, reason=self._ended)
        return self._ticket_to(self._training, session, after)
