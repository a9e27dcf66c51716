"""A learner: joins a job, measures its device, and takes part in rounds until the run is over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

import paceline
from paceline.allocation import Allocation, Candidate, Timings
from paceline.allocation.least_time import suggest_seconds
from paceline.devices.profiles import Outlook, Profile
from paceline.devices.states import Spent, StateEstimator, StateRates
from paceline.devices.stressors import MATRIX_SIZE
from paceline.devices.subset_benchmark import benchmark, benchmark_states
from paceline.errors import BadReply, ConfigError, PacelineError, RemoteError, TransportError, TurnedAway, in_one_line
from paceline.events import Phase
from paceline.learning import privacy
from paceline.learning.aggregation import weight_of
from paceline.learning.divergence import are_finite
from paceline.learning.privacy.spec import MIN_MASKED
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trained, TrainOptions
from paceline.learning.vectors import Vectors
from paceline.topologies.base import CannotKeepUp, Finished, Member, Node
from paceline.topologies.consent import check_consent
from paceline.topologies.events import PhaseStarted
from paceline.topologies.parallel import messages
from paceline.topologies.parallel.disclosures import disclosures_of
from paceline.topologies.parallel.enrolment import Enrolment, OrchestratorLink
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent, TrainingFailed
from paceline.topologies.parallel.own_data import OwnData
from paceline.topologies.parallel.seeds import order_seed, round_seed
from paceline.topologies.sessions import RETRY_SECONDS, Changes, say_goodbye, until_over

_NEARLY = 10  # times its deadline: what a device that was held up for a while may seem to need for a round
_MAX_ENROLMENTS = 100  # kept for when it is sent back; a pool has no more jobs at a time
_OF_THE_SESSION = ("LookupError", "RuntimeError")  # errors of the orchestrator that mean this device, whatever its job
_RUINED = "parameters hold NaN or infinity"
_MATRIX_BYTES = 4 * MATRIX_SIZE**2  # what a device downloads that is busy with that


class Learner(Member):
    """Takes part in one run, in whichever of its jobs it is placed.

    Args:
        own_data: returns what to train on where data stays on the devices.
    """

    def __init__(self, node: Node, own_data: OwnData | None = None) -> None:
        self._node = node
        self._name = node.name
        self._options = node.options
        self._own_data = own_data
        self._orchestrator = node.connect(
            messages.OrchestratorService, retry_seconds=min(RETRY_SECONDS, node.options.patience_seconds)
        )
        self._update = self._orchestrator.update.options(once=True)  # a second would be refused
        self._background = node.machine.background_load(self._fill)
        self._estimator = StateEstimator(len(self._background.states))
        self._found_in: str | None = None  # the state of the device when it joined
        self._session = ""
        self._changes = Changes()  # for who waits until it is not in a round
        self._is_working = self._is_suspended = False
        self._enrolments: dict[str, Enrolment] = {}  # by the name of the job
        self._enrolment: Enrolment | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, address: str = "") -> Finished:
        """Take part until the run is over. Joins again by itself when the connection is lost."""
        try:
            return Finished(await until_over(self._join, self._take_part, self._node))
        except CannotKeepUp:
            await self.leave()
            raise
        finally:
            await self._background.aclose()

    async def measure(self) -> Profile:
        """Join, measure this device, and leave."""
        await self._join()
        await self.leave()
        if self._enrolment is None or self._enrolment.profile is None:
            raise PacelineError(f"{self._orchestrator.url} has no job to measure this device for")
        return self._enrolment.profile

    async def suspend(self) -> None:
        self._is_suspended = True
        await self._changes.until(lambda: not self._is_working)

    async def leave(self) -> None:
        await say_goodbye(self._orchestrator, self._session)

    # Joining.

    async def _join(self) -> None:
        try:
            proof = await self._node.prove(self._orchestrator)
            welcome: messages.Welcome = await self._orchestrator.join.options(retry_seconds=0).coro(
                self._name, paceline.__version__, self._options.price, proof
            )
        except RemoteError as error:
            if error.type_name == "LookupError":  # its proof came too late: it is asked for another
                raise
            refusal = TurnedAway if self._session else ConfigError  # who was in before has given no wrong name
            raise refusal(f"{self._orchestrator.url} refused {self._name!r}: {error.remote_message}") from error
        self._session = welcome.session
        for enrolment in self._enrolments.values():
            enrolment.last_round = 0  # an orchestrator that was restarted repeats the round that was open
            enrolment.feedback.forget()
        if welcome.offer is not None:
            await self._enrol(welcome.offer)

    async def _enrol(self, offer: messages.Offer) -> None:
        """Enrol in a job, if that works here; if not, and there are other jobs, the orchestrator knows."""
        try:
            await self._enrol_in(offer)
        except Exception as error:  # whatever is wrong with the job must not cost the device the others
            await self._report_failure(offer.training.name, 0, error)

    async def _report_failure(self, job: str, round: int, error: Exception) -> None:
        """Report that a job cannot be trained here; raises the error if it is not the job's, or there is no other."""
        is_lost = isinstance(error, TransportError) and not isinstance(error, BadReply)
        if is_lost or (isinstance(error, RemoteError) and error.type_name in _OF_THE_SESSION):
            raise error
        reason = in_one_line(error, is_named=not isinstance(error, PacelineError))
        if not await self._orchestrator.report_failure.coro(self._session, round, reason):
            raise error
        self._node.record(TrainingFailed, learner=self._name, job=job, round=round, reason=reason)
        self._enrolments.pop(job, None)
        self._enrolment = None

    async def _enrol_in(self, offer: messages.Offer) -> None:
        """Enrol in a job; measures the device for it, unless that was done before."""
        enrolment = self._enrolments.get(offer.training.name)
        if enrolment is None or not enrolment.is_for_the_same(offer):
            trainer = self._node.machine.trainer(offer.training)
            enrolment = Enrolment.of(offer, trainer, self._own_data, self._options.allowed)
            has_own_data = enrolment.store is not None
            if not trainer.has_base:
                enrolment.load_base(await self._orchestrator.base.coro(self._session))
            disclosed = disclosures_of(enrolment.policy, self._options, offer.privacy, has_own_data=has_own_data)
            check_consent(disclosed, self._options.is_private)
            await self._measure(enrolment)
            self._enrolments[offer.training.name] = enrolment
            if len(self._enrolments) > _MAX_ENROLMENTS:
                del self._enrolments[next(iter(self._enrolments))]
        self._enrolment = enrolment
        if enrolment.policy.decided_by == "orchestrator":
            if enrolment.policy.needs_outlook and self._found_in is None:  # drawn in any case: alike for all
                self._background.begin_round()
                self._found_in = self._background.state
            await self._declare(enrolment)
        elif enrolment.store is not None:
            await self._declare(enrolment)

    async def _declare(self, enrolment: Enrolment) -> None:
        policy, load = enrolment.policy, self._background
        outlook: list[Outlook] = []
        if policy.needs_outlook:
            probabilities = load.probabilities or self._estimator.probabilities
            outlook = [
                Outlook(state=state, probability=probability, profile=profile)
                for state, probability, profile in zip(load.states, probabilities, enrolment.profiles, strict=True)
            ]
        most = None if self._options.max_shards is None else min(self._options.max_shards, messages.MAX_SHARDS)
        declaration = messages.Declaration(
            max_shards=most,
            num_shards=None if enrolment.store is None else len(enrolment.store),
            profile=enrolment.profile if policy.needs_profiles else None,
            outlook=tuple(outlook),
            state=self._found_in if policy.state_reports != "never" else None,
        )
        await self._orchestrator.declare.coro(self._session, declaration)

    async def _measure(self, enrolment: Enrolment) -> None:
        self._start("benchmark", 0)
        start = self._time()
        num_shards = min(enrolment.offer.benchmark_shards, enrolment.terms.num_shards)
        link = OrchestratorLink(self._orchestrator, self._session, enrolment)
        measured = {"num_shards": num_shards, "up_bytes": enrolment.terms.up_bytes}
        if enrolment.policy.needs_outlook:
            enrolment.profiles = await benchmark_states(self._background, link, enrolment.trainer, **measured)
            enrolment.profile = enrolment.profiles[0]
        else:
            enrolment.profile = await benchmark(link, enrolment.trainer, **measured)
        self._node.record(
            DeviceMeasured,
            learner=self._name,
            profile=msgspec.to_builtins(enrolment.profile),
            seconds=self._time() - start,
            power=self._node.machine.meter.described,
            job=enrolment.offer.training.name,
            threads=enrolment.trainer.num_threads,
            device=self._node.machine.accelerator_name,
            precision=enrolment.offer.training.precision,
        )

    async def _fill(self) -> None:
        """Download a matrix, to keep the link busy."""
        await self._orchestrator.fill.coro(self._session, _MATRIX_BYTES)

    # Rounds.

    async def _take_part(self) -> str:
        while True:
            self._background.begin_round()
            ticket = await self._next_round()
            if ticket.status == "over":
                return ticket.reason
            assert self._enrolment is not None
            self._enrolment.last_round = ticket.round
            self._is_working = True
            try:
                await self._work(self._enrolment, ticket)
            except Exception as error:
                await self._report_failure(self._enrolment.offer.training.name, ticket.round, error)
                continue
            finally:
                self._is_working = False
                self._changes.notify()
            if self._is_suspended:
                await asyncio.get_running_loop().create_future()
            if self._enrolment.policy.needs_outlook and self._background.probabilities is None:
                await self._declare(self._enrolment)  # what it has learned about its states

    async def _next_round(self) -> messages.Ticket:
        """Return a ticket to a round that is open, in this job or, where it is sent, another; or to none any more."""
        while True:
            enrolment = self._enrolment
            after = enrolment.last_round if enrolment is not None else 0
            is_state_wanted = enrolment is not None and enrolment.policy.state_reports == "each round"
            state = self._background.state if is_state_wanted else None
            self._start("idle", after)
            ticket: messages.Ticket = await self._orchestrator.next_round.coro(self._session, after, state)
            if ticket.status == "move" and ticket.offer is not None:
                await self._enrol(ticket.offer)
            elif ticket.status == "over":
                return ticket
            elif ticket.status == "open":
                if enrolment is None or ticket.round <= after:
                    raise BadReply(f"the orchestrator opened round {ticket.round} after round {after}")
                return ticket

    async def _work(self, enrolment: Enrolment, ticket: messages.Ticket) -> None:
        start = self._time()
        usage = _Usage(self._node)
        terms = msgspec.structs.replace(enrolment.terms, deadline_seconds=max(ticket.seconds_left, 1e-6))
        candidate = self._candidate(enrolment)
        allocation = ticket.allocation or enrolment.policy.allocate(terms, (candidate,))[0]
        if allocation.num_shards < 1:
            await self._check_that_a_whole_round_would_do(enrolment, candidate, ticket)
            return
        masker = await self._agree_on_masks(enrolment, ticket.round)
        if masker is None and enrolment.offer.privacy.secure_aggregation:
            return
        work = await self._take(enrolment, ticket, allocation.num_shards)
        if work is None:
            return
        # The ticket may have been long on its way. This answer was sent after it was asked for, so counting from then
        # errs on the safe side.
        deadline = start + min(ticket.seconds_left, work.seconds_left)
        upload_seconds = enrolment.policy.upload_seconds(terms, candidate)
        halt_at = deadline + enrolment.terms.overtime * enrolment.terms.deadline_seconds - upload_seconds
        done = await self._train(enrolment, work, ticket.round, allocation, start, halt_at)
        is_ruined = self._node.trains and done.num_samples > 0 and not are_finite(done.parameters)
        spent = RoundSpent(
            at=self._node.now(),
            learner=self._name,
            round=ticket.round,
            deadline_seconds=enrolment.terms.deadline_seconds,
            start_seconds=max(0.0, enrolment.terms.deadline_seconds - ticket.seconds_left),
            num_shards=done.num_shards,
            num_samples=done.num_samples,
            download_seconds=done.download_seconds,
            train_seconds=done.train_seconds,
            is_halted=done.is_halted,
            job=enrolment.offer.training.name,
            diverged=_RUINED if is_ruined else "",
        )
        await self._hand_in(enrolment, done, spent, usage, masker)

    async def _train(
        self,
        enrolment: Enrolment,
        work: messages.Work,
        round: int,
        allocation: Allocation,
        start: float,
        halt_at: float,
    ) -> _Done:
        """Train what was taken since `start`, and further portions as long as there are any."""
        given = enrolment.parameters_of(work)
        done, seeds = _Done(given, given), (enrolment.offer.training.seed, round, self._name)
        while True:
            downloaded = self._time()
            self._start("train", round)
            shards = work.served or enrolment.own_shards(allocation.num_shards, round_seed(*seeds))
            order = order_seed(*seeds, done.num_portions)
            options = TrainOptions(local_epochs=allocation.local_epochs, until=halt_at, seed=order, round=round)
            trained = await enrolment.trainer.train(done.parameters, shards, options)
            done.add(trained, shards, work.num_bytes, downloaded - start, self._time() - downloaded)
            if done.is_halted or not work.may_be_more:
                return done
            start = self._time()
            self._start("download", round)
            work = await self._orchestrator.more.coro(self._session, round, done.num_portions)
            if not work.shards:
                return done

    async def _agree_on_masks(self, enrolment: Enrolment, round: int) -> privacy.Masker | None:
        """Agree with the other learners of a round on masks; None if there are none, or it was too late for that."""
        if not enrolment.offer.privacy.secure_aggregation:
            return None
        masker = privacy.Masker(self._name)
        try:
            keys = await self._asked(self._orchestrator.show_keys, round, masker.keys, masker.commitment)
            sealed = await self._node.run_blocking(lambda: masker.seal(keys, MIN_MASKED))
            await self._orchestrator.share_secrets.coro(self._session, round, sealed)
        except RemoteError as error:
            if error.type_name != "ValueError":
                raise
            return None
        return masker

    async def _help_to_unmask(self, masker: privacy.Masker, round: int) -> None:
        """Reveal what takes the masks off the sum of the updates that came, if the round waits for that."""
        try:
            survivors = await self._asked(self._orchestrator.survivors, round)
            await self._orchestrator.reveal.coro(self._session, round, masker.reveal(survivors))
        except RemoteError as error:
            if error.type_name != "ValueError":
                raise

    async def _asked(self, call: Any, round: int, *arguments: Any) -> Any:
        """Ask for what all learners of a round wait for, until it is there."""
        while (answer := await call.coro(self._session, round, *arguments)) is None:
            pass
        return answer

    async def _take(self, enrolment: Enrolment, ticket: messages.Ticket, num_shards: int) -> messages.Work | None:
        """Take the round's work; None if the round closed in the meantime."""
        self._start("download", ticket.round)
        try:
            num_samples = None
            if enrolment.store is not None:
                seed = round_seed(enrolment.offer.training.seed, ticket.round, self._name)
                num_samples = enrolment.num_own_samples(num_shards, seed)
            work: messages.Work = await self._orchestrator.take.coro(
                self._session, ticket.round, num_shards, num_samples
            )
        except RemoteError as error:
            if error.type_name != "ValueError":
                raise
            return None
        return work

    async def _hand_in(
        self, enrolment: Enrolment, done: _Done, spent: RoundSpent, usage: _Usage, masker: privacy.Masker | None
    ) -> None:
        """Upload what was trained, if anything was; how it went is remembered also if it failed."""
        start, is_accepted, upload_seconds = self._time(), False, None
        try:
            if spent.diverged:
                await self._orchestrator.report_divergence.coro(self._session, spent.round, spent.diverged)
            elif spent.num_samples:
                self._start("upload", spent.round)
                sent = await self._encoded(enrolment, done, spent.round, masker)
                receipt: messages.Receipt = await self._update.coro(self._session, spent.round, sent, spent.num_samples)
                is_accepted, upload_seconds = receipt.is_accepted, self._time() - start
                if is_accepted:
                    enrolment.feedback.applied()
                    if masker is not None:
                        await self._help_to_unmask(masker, spent.round)
        except privacy.MaskError as error:
            await self._orchestrator.report_divergence.coro(self._session, spent.round, str(error))
        finally:
            now = self._time()
            spent = usage.complete(spent)
            results = {"upload_seconds": upload_seconds, "is_accepted": is_accepted}
            self._node.emit(msgspec.structs.replace(spent, at=self._node.now(), **results))
            timings = Timings(
                down_bytes=done.num_bytes,
                down_seconds=spent.download_seconds,
                num_samples=spent.num_samples,
                train_seconds=spent.train_seconds,
                up_bytes=enrolment.terms.up_bytes if spent.num_samples and not spent.diverged else 0,
                up_seconds=now - start,
            )
            enrolment.remember(timings)
            if enrolment.profiles:
                self._estimate(timings, enrolment.profiles)

    async def _encoded(self, enrolment: Enrolment, done: _Done, round: int, masker: privacy.Masker | None) -> Vectors:
        """Return what to upload; raises `MaskError` if that is to be masked, and cannot."""
        if masker is not None:
            masker.open(await self._asked(self._orchestrator.sealed_secrets, round))
            weight = weight_of(enrolment.offer.weight, done.num_taken, done.num_samples)
            masked: Vectors = await self._node.run_blocking(
                lambda: enrolment.masked(masker, done.parameters, done.start, weight, self._node.rng)
            )
            return masked
        if enrolment.offer.compression.is_lossless:
            return done.parameters
        sent: Vectors = await self._node.run_blocking(lambda: enrolment.feedback.encode(done.parameters, done.start))
        return sent

    def _estimate(self, timings: Timings, profiles: Sequence[Profile]) -> None:
        """Learn from a round how likely the states of this device are."""
        seconds = max(timings.down_seconds - profiles[0].latency_seconds, 0.0)
        spent = Spent(timings.num_samples, timings.train_seconds, timings.down_bytes, transfer_seconds=seconds)
        self._estimator.see(spent, [StateRates(one.train.per_second, one.down.per_second) for one in profiles])

    def _candidate(self, enrolment: Enrolment) -> Candidate:
        # To keep time for the upload whatever state it is in, the one counts in which that takes longest.
        slowest = min(enrolment.profiles, key=lambda profile: profile.up.per_second, default=enrolment.profile)
        return Candidate(
            name=self._name, profile=slowest, history=tuple(enrolment.history), max_shards=self._options.max_shards
        )

    async def _check_that_a_whole_round_would_do(
        self, enrolment: Enrolment, candidate: Candidate, ticket: messages.Ticket
    ) -> None:
        """Raise `CannotKeepUp` if the device could not do a whole round, rather than just the rest of this one.

        If it is not far from that, it measures itself once more first: it may have been held up while it did.
        """
        if ticket.allocation is None and enrolment.policy.allocate(enrolment.terms, (candidate,))[0].num_shards < 1:
            terms = enrolment.terms
            least_seconds = enrolment.policy.least_deadline_seconds(terms, candidate)
            is_near = least_seconds <= _NEARLY * terms.deadline_seconds
            if is_near and not enrolment.is_measured_again:
                enrolment.is_measured_again = True
                await self._measure(enrolment)
                return
            hint = f" (least that works: {suggest_seconds(least_seconds)})" if math.isfinite(least_seconds) else ""
            raise CannotKeepUp(
                f"{self._name} cannot train one shard of {terms.shard_samples} samples within "
                f"{terms.deadline_seconds:g} s: use a longer deadline{hint}, smaller shards or fewer local epochs",
                least_seconds,
            )

    # Time.

    def _time(self) -> float:
        if self._loop is None:  # to ask for it each time would take longer than all the rest of this
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def _start(self, phase: Phase, round: int) -> None:
        self._background.enter_phase(phase)
        job = self._enrolment.offer.training.name if self._enrolment is not None else ""
        self._node.record(PhaseStarted, learner=self._name, round=round, phase=phase, job=job)


class _Usage:
    """What a learner uses up from here on, in bytes and in energy."""

    def __init__(self, node: Node) -> None:
        self._meter = node.machine.meter
        self._traffic = node.transport
        self._meter.read()  # what was before does not belong to the round
        self._before = (self._traffic.bytes_sent, self._traffic.bytes_received)

    def complete(self, spent: RoundSpent) -> RoundSpent:
        """Add what was used since."""
        sent = self._traffic.bytes_sent - self._before[0]
        received = self._traffic.bytes_received - self._before[1]
        cpu_seconds, joules = self._meter.read(sent + received)
        return msgspec.structs.replace(
            spent, bytes_sent=sent, bytes_received=received, cpu_seconds=cpu_seconds, joules=joules
        )


@dataclass
class _Done:
    """What came of a round so far."""

    start: Vectors
    parameters: Vectors
    num_portions: int = 0
    num_shards: int = 0
    num_taken: int = 0  # samples in the shards
    num_samples: int = 0
    num_bytes: int = 0
    download_seconds: float = 0.0
    train_seconds: float = 0.0
    is_halted: bool = False

    def add(
        self, trained: Trained, shards: Sequence[Shard], num_bytes: int, download_seconds: float, train_seconds: float
    ) -> None:
        self.parameters = trained.parameters
        self.num_portions += 1
        self.num_shards += len(shards)
        self.num_taken += sum(shard.num_samples for shard in shards)
        self.num_samples += trained.num_samples
        self.num_bytes += num_bytes
        self.download_seconds += download_seconds
        self.train_seconds += train_seconds
        self.is_halted = trained.is_halted
