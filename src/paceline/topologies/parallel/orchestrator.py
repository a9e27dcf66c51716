"""The orchestrator: keeps the sessions of learners, hands out shards, averages what comes in time.

Who takes part in which round is decided by its two kinds: `SingleJob` and `JobPool`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch

from paceline.allocation import Candidate
from paceline.checks import MOST
from paceline.learning.averaging import State
from paceline.topologies.access import Proof, Right
from paceline.topologies.base import E, Environment, Host, JobProgress
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel import messages
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.masking import Masking
from paceline.topologies.parallel.rounds import OpenRound
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

T = TypeVar("T")

MAX_TEXT = 200
"""Characters that are kept of a text that a learner sends."""

_FAILED_AUDIT = "an audit found that it bills work it did not do"


@dataclass
class LearnerSession(Session):
    """A learner that joined.

    Attributes:
        price: price it asks for a shard.
        job: name of the job it is in; empty if there is but one, or none yet.
        declarations: what it declared about itself, by job.
        state: state of the device, if it declares it.
    """

    price: float = 0.0
    job: str = ""
    declarations: dict[str, messages.Declaration] = field(default_factory=dict)
    state: str | None = None

    def as_candidate(self, job: str = "", *, has_own_data: bool = False) -> Candidate:
        """Return the learner as a policy sees it, by what it declared for this job."""
        declared = self.declarations.get(job) or messages.Declaration()
        return Candidate(
            name=self.name,
            profile=declared.profile,
            max_shards=declared.max_shards,
            price=self.price,
            outlook=declared.outlook,
            state=self.state or declared.state,
            num_shards=(declared.num_shards or 0) if has_own_data else None,
        )


class Orchestrator(Host, messages.OrchestratorService):
    """Trains jobs with whoever joins; learners, and those who submit jobs, call its methods."""

    calls: ClassVar[frozenset[str]] = messages.OrchestratorService.__abstractmethods__
    rights: ClassVar[Mapping[str, Right]] = messages.OrchestratorService.rights

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._roster = Roster(LearnerSession, env.access, now=env.now)
        self._changes = Changes()  # for rounds and for whoever waits for enough learners
        self._openings = Changes()  # for learners that wait for a round, for another job, or for the end
        self._ended: str | None = None  # why the run is over, once it is
        self._is_suspended = False

    @property
    @abstractmethod
    def _jobs(self) -> Iterable[JobTraining]:
        """All jobs, those that are over included."""

    @abstractmethod
    def _training_of(self, session: LearnerSession) -> JobTraining:
        """Return the job that a learner is in; raises `ValueError` if it is in none."""

    @abstractmethod
    def _offer_first(self, session: LearnerSession) -> messages.Offer | None:
        """Return the job that a newcomer begins with; None if there is none yet."""

    @abstractmethod
    def _progress_of(self, job: JobTraining) -> JobProgress:
        """Return how far a job is."""

    def status(self) -> dict[str, Any]:
        return {"jobs": [self._progress_of(job).flat() for job in self._jobs]}

    def device_states(self) -> Mapping[str, int]:
        return self._roster.states()

    def current_state(self) -> State:
        training = list(self._jobs)
        if len(training) != 1:
            raise ValueError(f"{len(training)} jobs are trained here, each with a model of its own")
        return training[0].state

    async def drain(self) -> None:
        await self._changes.until(lambda: self._roster.has_drained, DRAIN_SECONDS)

    async def suspend(self) -> None:
        self._is_suspended = not self.env.is_stopping()
        self._changes.notify()
        await self._changes.until(lambda: not any(job.is_in_round for job in self._jobs))

    async def _unless_suspended(self) -> None:
        """Go on to another round, or wait to be cancelled if there is to be none."""
        if self._is_suspended:
            self._changes.notify()  # a round may have closed just now
            await asyncio.get_running_loop().create_future()

    def _end(self, reason: str) -> None:
        self._ended = reason
        self._openings.notify()

    async def _until_ready(self, number: int, least: int) -> None:
        """Wait until so many learners are ready, for round `number`, or the run is to end."""
        reported = -1

        def are_enough() -> bool:
            nonlocal reported
            num_ready = self._roster.num_ready
            if num_ready < least and num_ready != reported and self._is_waiting_worth_reporting():
                reported = num_ready
                self._record(WaitingForLearners, round=number, num_ready=num_ready, min_learners=least)
            return num_ready >= least or not self._has_work

        await self._changes.until(are_enough)

    @property
    def _has_work(self) -> bool:
        """Whether there is anything to wait for learners for."""
        return not self.env.is_stopping()

    def _is_waiting_worth_reporting(self) -> bool:
        return True

    def _exclude_failed(self, closed: OpenRound) -> None:
        """Let nobody back in who failed an audit."""
        for name in sorted(closed.failed_audit):
            self._roster.exclude(name, _FAILED_AUDIT)
            self._record(LearnerLeft, learner=name, reason=f"excluded: {_FAILED_AUDIT}")

    def _lose(self, session: LearnerSession) -> None:
        """Count on a learner no longer, until it asks again."""
        self._roster.set_ready(session, False)
        for job in self._jobs:
            if job.round is not None and session.name not in job.round.shares:
                job.give_up(session.name)
        self._changes.notify()

    def _find(self, session: str) -> LearnerSession:
        return self._roster.find(session)

    def _record(self, kind: type[E], **fields: Any) -> E:
        return self.env.record(kind, digits=6, **fields)

    # What learners call.

    async def join(self, learner: str, version: str, price: float, proof: Proof | None = None) -> messages.Welcome:
        check_version(version)
        if not 0 <= price <= MOST:
            raise ValueError(f"price is {price}; allowed: 0 to {MOST:g}")
        for silent in self._roster.drop_silent():
            self._record(LearnerLeft, learner=silent.name, reason=SILENT)
        session, is_back = self._roster.join(learner, proof)
        session.price = price
        for job in self._jobs:
            job.give_up(learner)  # whatever its former self was doing
        self._record(LearnerJoined, learner=learner, is_back=is_back)
        self._changes.notify()
        return messages.Welcome(session=session.key, offer=self._offer_first(session))

    async def declare(self, session: str, declaration: messages.Declaration) -> None:
        found = self._find(session)
        before = found.declarations.get(found.job)
        if before is not None and before.num_shards != declaration.num_shards:
            raise ValueError(
                f"it declared {before.num_shards} shards, and now {declaration.num_shards}; that stays in a session"
            )
        found.declarations[found.job] = declaration

    async def sample(self, session: str, num_shards: int, with_parameters: bool) -> messages.Work:
        return await self._training_of(self._find(session)).sample(num_shards, with_parameters)

    async def base(self, session: str) -> dict[str, torch.Tensor]:
        return self._training_of(self._find(session)).prepared.model.base()

    async def discard(self, session: str, data: bytes) -> None:
        self._find(session)

    async def fill(self, session: str, num_bytes: int) -> bytes:
        self._find(session)
        return padding(num_bytes, messages.MAX_FILL_BYTES)

    async def take(self, session: str, round: int, num_shards: int, num_samples: int | None = None) -> messages.Work:
        found = self._find(session)
        declared = found.declarations.get(found.job)
        return await self._training_of(found).take(found.name, round, num_shards, num_samples, declared)

    async def more(self, session: str, round: int, num_portions: int) -> messages.Work:
        found = self._find(session)
        return await self._training_of(found).more(found.name, round, num_portions)

    async def update(
        self, session: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int
    ) -> messages.Receipt:
        found = self._find(session)
        return self._training_of(found).update(found.name, round, parameters, num_samples)

    async def report_divergence(self, session: str, round: int, shown_by: str) -> None:
        found = self._find(session)
        self._training_of(found).diverge(found.name, round, shown_by[:MAX_TEXT])

    async def report_failure(self, session: str, round: int, reason: str) -> bool:
        self._find(session)
        return False  # there is but one job

    async def show_keys(self, session: str, round: int, keys: bytes, commitment: bytes) -> dict[str, bytes] | None:
        found = self._find(session)
        self._training_of(found).masking(round).show(found.name, keys, commitment)
        return await self._masked(found, round, lambda masking: masking.keys_of_all())

    async def share_secrets(self, session: str, round: int, sealed: dict[str, bytes]) -> None:
        found = self._find(session)
        self._training_of(found).masking(round).share(found.name, sealed)

    async def sealed_secrets(self, session: str, round: int) -> dict[str, bytes] | None:
        found = self._find(session)
        return await self._masked(found, round, lambda masking: masking.sealed_for(found.name))

    async def survivors(self, session: str, round: int) -> list[str] | None:
        return await self._masked(self._find(session), round, lambda masking: masking.survivors)

    async def reveal(self, session: str, round: int, shares: dict[str, bytes]) -> None:
        found = self._find(session)
        self._training_of(found).masking(round).reveal(found.name, shares)

    async def _masked(self, session: LearnerSession, round: int, answer: Callable[[Masking], T | None]) -> T | None:
        """Wait a while for an answer that all learners of a round under masks wait for."""
        training = self._training_of(session)

        def is_there() -> bool:
            return answer(training.masking(round)) is not None  # raises if the round has closed

        await self._changes.until(is_there, POLL_SECONDS)
        return answer(training.masking(round))

    async def leave(self, session: str) -> None:
        self._part_with(self._find(session), "it said goodbye")

    def _part_with(self, session: LearnerSession, reason: str) -> None:
        self._lose(session)
        self._roster.remove(session)
        self._record(LearnerLeft, learner=session.name, reason=reason)

    def connected(self) -> Collection[str]:
        return [session.name for session in self._roster]

    def dismiss(self, name: str, reason: str) -> None:
        session = self._roster.named(name)
        if session is not None:
            for job in self._jobs:
                job.give_up(name)  # whatever it has taken
            self._part_with(session, reason)

    def _ticket_to(self, job: JobTraining, session: LearnerSession, after: int) -> messages.Ticket | None:
        """Let a learner into the round that is open; None if there is none for it."""
        opened = job.round
        if opened is None or not opened.is_open_to(session.name, after):
            return None
        opened.expect(session.name)
        return messages.Ticket(
            status="open",
            round=opened.number,
            seconds_left=opened.due_at - job.time(),
            allocation=opened.allocated_to(session.name),
        )

    async def _wait_for_opening(self, session: LearnerSession, seconds: float) -> None:
        """Hold a learner back until there may be something for it; raises if another has taken its name meanwhile."""
        try:
            await self._openings.next(seconds)
        except BaseException:  # the device is gone; if not, it will ask again
            self._lose(session)
            raise
        if self._ended is None:
            self._find(session.key)

    # What those who have jobs call.

    async def submit(self, tables: dict[str, Any]) -> str:
        raise ValueError("this orchestrator trains one job; start it with a pool file to submit others")

    async def cancel(self, job: str) -> JobProgress:
        raise ValueError("this orchestrator trains one job; to end that, stop the orchestrator")

    async def progress(self) -> list[JobProgress]:
        return [self._progress_of(job) for job in self._jobs]

    async def follow(self, job: str) -> JobProgress:
        followed = self._named(job)
        await self._changes.until(lambda: self._progress_of(followed).status == "over", POLL_SECONDS)
        return self._progress_of(followed)

    def _named(self, job: str) -> JobTraining:
        """Return a job by its name; raises `LookupError` for one not known."""
        found = next((one for one in self._jobs if one.prepared.job.name == job), None)
        if found is None:
            raise LookupError(f"there is no job {job[:80]!r} in this pool")
        return found
