"""A peer: joins those that are there, trains its epochs, exchanges what it learns, and knows when others are gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from paceline.allocation.gossip import GossipPolicy
from paceline.devices.activities import Activity, Undisturbed
from paceline.devices.contention import Predictor, RecentPredictor
from paceline.devices.energy import Meter
from paceline.errors import PacelineError
from paceline.events import Emit, Phase
from paceline.learning.trainers import Trainer
from paceline.learning.vectors import Vectors
from paceline.topologies.events import PhaseStarted
from paceline.topologies.gossip.adoption import adopted
from paceline.topologies.gossip.balance import Balancer, GossipedStore
from paceline.topologies.gossip.conclusion import Concluded, Conclusion
from paceline.topologies.gossip.contacts import Access, Contacts, call_seconds
from paceline.topologies.gossip.events import (
    EpochEnded,
    PeerEnded,
    PeerLost,
    PeerSeen,
    PeerStarted,
    PointsMade,
    StoreBack,
    StoreLost,
)
from paceline.topologies.gossip.exchanges import Exchange, MixingExchange, Outcome, Ties, size_of
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.local import Holding, LocalData
from paceline.topologies.gossip.mass import FULL_MASS
from paceline.topologies.gossip.meetings import Known, Meetings
from paceline.topologies.gossip.members import Member, Membership, check_name
from paceline.topologies.gossip.messages import PeerService, Progress, Shown, View
from paceline.topologies.gossip.push_sum import PushSumExchange
from paceline.topologies.gossip.stores import FallbackStore, Store

_POLL_SECONDS = 10.0  # the longest that an answer is waited for in one call
_START_SECONDS = 0.2  # between two looks whether enough peers are there
_MIN_SAMPLES = 2  # that a peer trains in an epoch, however slow it is: enough for batch normalisation
_MAX_TEXT = 200  # characters, of what another tells

Evaluate = Callable[[Vectors, int], Awaitable[tuple[float, float]]]
"""Loss and accuracy of parameters on so many samples of the test data, or on all for 0."""


@dataclass(frozen=True, kw_only=True)
class PeerOptions:
    """How a peer behaves.

    Attributes:
        known: others to join; none for the first of all.
        fingerprint: of its own certificate.
        life: grows when it comes back under its name.
        activity: what its device does besides.
        predictor: of its speed.
        store: where figures are shared; by gossip if None.
        evaluate: tries models; None to leave that out.
        meter: tells what an epoch takes in energy; None to leave that out.
        on_epoch: given the model after each epoch.
    """

    known: Sequence[Known] = ()
    fingerprint: str | None = None
    life: int = 1
    activity: Activity = field(default_factory=Undisturbed)
    predictor: Predictor = field(default_factory=RecentPredictor)
    store: Store | None = None
    evaluate: Evaluate | None = None
    meter: Meter | None = None
    on_epoch: Callable[[str, int, Vectors], None] = lambda name, epoch, parameters: None


@dataclass
class _Standing:
    """How a peer stands."""

    epoch: int = 0
    ratio: float = 1.0
    samples_per_second: float = 0.0
    loss: float | None = None
    accuracy: float | None = None
    store: str = ""
    parameters: Vectors = field(default_factory=dict)


class Peer(PeerService):
    """One of those that train together without a server.

    Args:
        holding: the data on its device.
        emit: is told what happens here; nothing of it is sent.
    """

    def __init__(
        self,
        job: GossipJob,
        name: str,
        holding: Holding,
        trainer: Trainer,
        *,
        access: Access = Access(),  # noqa: B008  (frozen)
        emit: Emit = lambda event: None,
        options: PeerOptions = PeerOptions(),  # noqa: B008  (frozen)
    ) -> None:
        check_name(name)
        self.name = name
        self._job = job
        self._trainer = trainer
        self._emit = emit
        self._options = options
        self._started_at: float | None = None
        start = trainer.initial_parameters()
        self._standing = _Standing(parameters={kind: vector.clone() for kind, vector in start.items()})
        self._data = LocalData(job, name, holding, trainer)
        me = Member(
            name=name,
            address="",
            life=options.life,
            fingerprint=options.fingerprint,
            parts=holding.parts,
            # As late as can be, until it is known whether training has begun: nobody should wait for this peer.
            first_epoch=job.epochs if options.known else 1,
        )
        self._membership = Membership(me, self._tell_change, epochs=job.epochs)
        self._model_bytes = sum(vector.nbytes for vector in start.values())
        self._contacts = Contacts(self._membership, access, job.patience_seconds, self._model_bytes)
        chance = random.Random(f"{job.seed}/{name}/{options.life}")
        self._meetings = Meetings(job, self._membership, self._contacts, chance)
        self._balancer = self._make_balancer()
        self._ties = Ties(
            job=job,
            name=name,
            trainer=trainer,
            membership=self._membership,
            contacts=self._contacts,
            start=self._standing.parameters,
            turn_to=lambda phase: self._phase(phase, self._standing.epoch + 1),
        )
        self._exchange: Exchange = MixingExchange(self._ties)
        if job.exchange == "push-sum":
            self._exchange = PushSumExchange(self._ties)
        self._conclusion = Conclusion(self._membership, self._contacts, self._standing.parameters)

    # A peer's life.

    async def run(self, address: str) -> Concluded:
        """Take part until all epochs are done; others must be able to call it at this address from the start."""
        self._started_at = asyncio.get_running_loop().time()
        self._membership.amend(address=address)
        looking_after = asyncio.ensure_future(self._meetings.look_after_others())
        try:
            first = await self._begin()
            for epoch in range(first, self._job.epochs + 1):
                await self._meetings.face_rival()
                await self._train(epoch)
            self._membership.amend(is_done=True)
            own = await self._exchange.settle(self._standing.parameters)
            concluded = await self._conclusion.reach(own)
            await self._end(first, concluded)
            await self._conclusion.linger(call_seconds(self._model_bytes))
            return concluded
        finally:
            looking_after.cancel()
            await asyncio.wait((looking_after,))
            await self._exchange.aclose()
            await self._options.activity.aclose()

    async def leave(self) -> None:
        """Say goodbye to all who can be reached."""
        await self._meetings.say_goodbye()

    async def _begin(self) -> int:
        """Meet others, get ready, and wait for enough of them; returns the first epoch to train."""
        introducer = await self._meetings.join(self._options.known)
        if introducer is None:
            self._membership.amend(first_epoch=1)
        self._phase("benchmark", 0)
        self._options.predictor.observe(1, 1 / await self._data.measure())
        self._phase("aggregate", 0)
        made = await self._data.aggregate()
        if made is not None:
            self._emit(
                PointsMade(
                    at=self._now(),
                    learner=self.name,
                    num_points=len(made.points.y),
                    num_samples=self._data.num_samples,
                    seconds=made.seconds,
                    is_cached=made.is_cached,
                )
            )
        self._phase("idle", 0)
        await self._balancer.tell(0, self._data.num_samples)
        if introducer is None:
            first = 1
            self._exchange.begin(FULL_MASS)
        else:
            first = await self._catch_up(introducer)
        while first == 1 and not self._are_enough():
            await self._meetings.face_rival()
            silent = [member for member in self._membership.others() if member.figures is None]
            await self._meetings.meet_somebody(silent)
            await asyncio.sleep(_START_SECONDS)
        self._emit(
            PeerStarted(
                at=self._now(),
                learner=self.name,
                address=self._membership.me.address,
                epoch=first,
                num_samples=self._data.num_samples,
                known=tuple(member.name for member in self._membership.others()),
                power=None if self._options.meter is None else self._options.meter.described,
            )
        )
        return first

    async def _catch_up(self, introducer: str) -> int:
        """Take the newest model of a peer; returns the epoch to begin with."""
        others = [member.name for member in self._membership.others() if member.name != introducer]
        for name in (introducer, *others):
            shown = await adopted(name, self._ties, self._meetings)
            if shown is not None:
                break
        else:
            raise PacelineError("all peers that train this job have gone; join again when others are there")
        self._standing.parameters = shown.parameters
        self._exchange.begin(shown.mass)
        newest = max([shown.epoch, *(member.epoch for member in self._membership.others())])
        # Those that mix the next epoch do not know of this peer yet; for the one after, they will.
        first = min(newest + (2 if self._job.exchange == "mixing" else 1), self._job.epochs)
        self._standing.epoch = first - 1
        self._membership.amend(first_epoch=first, epoch=first - 1)
        await self._meetings.meet_everybody()
        return first

    def _are_enough(self) -> bool:
        living = self._membership.living()
        return sum(member.figures is not None for member in living) >= self._job.min_peers or any(
            member.epoch for member in living
        )

    async def _train(self, epoch: int) -> Outcome:
        loop, standing = asyncio.get_running_loop(), self._standing
        start, before, meter = loop.time(), (self._ties.traffic.sent, self._ties.traffic.received), self._options.meter
        if meter is not None:
            meter.read()  # what was before is not of the epoch
        self._options.activity.begin_round()
        num_kept, rate = await self._balancer.decide(epoch, self._now(), self._data)
        num_kept = min(max(_MIN_SAMPLES, num_kept), self._data.num_samples)
        standing.ratio, standing.samples_per_second = num_kept / self._data.num_samples, rate
        self._phase("rank" if self._job.points is not None else "train", epoch)
        shard, rank_seconds = await self._data.choose(standing.parameters, epoch, num_kept)
        self._phase("train", epoch)
        outcome = await self._exchange.train(epoch, standing.parameters, shard)
        self._options.predictor.observe(outcome.num_samples, outcome.train_seconds)
        seconds = loop.time() - start
        standing.epoch, standing.parameters = epoch, outcome.parameters
        self._membership.amend(epoch=epoch)
        if self._options.evaluate is not None and self._job.evaluate_samples:
            standing.loss, standing.accuracy = await self._options.evaluate(
                outcome.parameters, self._job.evaluate_samples
            )
        self._options.on_epoch(self.name, epoch, outcome.parameters)
        sent, received = self._ties.traffic.sent - before[0], self._ties.traffic.received - before[1]
        cpu_seconds, joules = (None, None) if meter is None else meter.read(sent + received)
        self._emit(
            EpochEnded(
                at=self._now(),
                learner=self.name,
                epoch=epoch,
                seconds=seconds,
                num_samples=outcome.num_samples,
                ratio=standing.ratio,
                samples_per_second=rate,
                train_seconds=outcome.train_seconds,
                rank_seconds=rank_seconds,
                exchange_seconds=outcome.exchange_seconds,
                num_exchanges=outcome.num_exchanges,
                bytes_sent=sent,
                bytes_received=received,
                distance=outcome.distance,
                mass=self._exchange.mass,
                cpu_seconds=cpu_seconds,
                joules=joules,
                loss=standing.loss,
                accuracy=standing.accuracy,
            )
        )
        return outcome

    async def _end(self, first: int, concluded: Concluded) -> None:
        loss, accuracy = None, None
        if self._options.evaluate is not None:
            loss, accuracy = await self._options.evaluate(concluded.parameters, 0)
        self._phase("idle", self._job.epochs)
        reason: Literal["epochs done"] = "epochs done"
        self._emit(
            PeerEnded(
                at=self._now(),
                learner=self.name,
                reason=reason,
                epochs=self._job.epochs - first + 1,
                averaged=concluded.averaged,
                loss=loss,
                accuracy=accuracy,
            )
        )

    def _tell_change(self, member: Member, reason: str) -> None:
        if member.is_living:
            self._emit(PeerSeen(at=self._now(), learner=self.name, other=member.name))
        elif not (member.status == "left" and member.is_done):  # at the end, all say goodbye
            told = reason[:_MAX_TEXT]
            self._emit(PeerLost(at=self._now(), learner=self.name, other=member.name, reason=told))

    # What others call.

    async def meet(self, view: View) -> View:
        return self._meetings.hear(view)

    async def show(self, epoch: int, base: int) -> Shown:
        return self._counted(await self._exchange.show(epoch, base, _POLL_SECONDS))

    async def push(self, learner: str, transfer: str, mass: int, parameters: dict[str, Any]) -> bool:
        return await self._exchange.push(transfer[:_MAX_TEXT], mass, parameters)

    async def adopt(self, learner: str, transfer: str) -> Shown:
        newcomer, mass = self._membership.get(learner), 0
        if transfer and newcomer is not None and newcomer.is_living:
            mass = self._exchange.share(newcomer, transfer[:_MAX_TEXT])
        standing = self._standing
        return self._counted(Shown(status="ready", epoch=standing.epoch, parameters=standing.parameters, mass=mass))

    async def settled(self) -> Shown:
        return self._counted(await self._conclusion.settled(_POLL_SECONDS))

    async def conclude(self, learner: str) -> Shown:
        return self._counted(await self._conclusion.conclude(_POLL_SECONDS))

    async def progress(self) -> Progress:
        standing = self._standing
        return Progress(
            learner=self.name,
            epoch=standing.epoch,
            epochs=self._job.epochs,
            ratio=standing.ratio,
            samples_per_second=standing.samples_per_second,
            loss=standing.loss,
            accuracy=standing.accuracy,
            living=[member.name for member in self._membership.living()],
            gone=[member.name for member in self._membership.everybody() if not member.is_living],
            is_done=self._membership.me.is_done,
            store=standing.store,
        )

    # Helpers.

    def _make_balancer(self) -> Balancer:
        gossiped = GossipedStore(self._membership)
        store: Store = gossiped
        if self._options.store is not None:
            shared = self._options.store
            self._standing.store = shared.name

            def lost(reason: str) -> None:
                self._emit(StoreLost(at=self._now(), learner=self.name, store=shared.name, reason=reason))

            def back() -> None:
                self._emit(StoreBack(at=self._now(), learner=self.name, store=shared.name))

            store = FallbackStore(shared, gossiped, lost, back)
        policy = self._job.allocation
        assert isinstance(policy, GossipPolicy)
        return Balancer(policy, self._membership, store, self._options.predictor, self._emit)

    def _counted(self, shown: Shown) -> Shown:
        self._ties.traffic.sent += size_of(shown)
        return msgspec.structs.replace(shown, members=self._membership.told())

    def _phase(self, phase: Phase, epoch: int) -> None:
        self._options.activity.turn_to(phase)
        self._emit(PhaseStarted(at=self._now(), learner=self.name, round=epoch, phase=phase))

    def _now(self) -> float:
        """Seconds since it began; 0 before, when others may call it already."""
        return 0.0 if self._started_at is None else asyncio.get_running_loop().time() - self._started_at
