"""A peer: joins those that are there, trains its epochs, exchanges what it learns, and knows when others are gone."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from paceline import axon
from paceline.allocation.edge_gossip import BalancingPolicy
from paceline.axon import access
from paceline.axon.host_names import HostNames
from paceline.axon.keys import short
from paceline.devices.contention import ContentionMonitor, ContentionPredictor, Predictor, RecentPredictor, load_profile
from paceline.errors import ConfigError, PacelineError
from paceline.events import Phase
from paceline.learning.averaging import State
from paceline.learning.scores import Scores, fields_of, figures_of
from paceline.learning.vectors import Vectors
from paceline.topologies.access import AuditLog
from paceline.topologies.base import Contact, DeviceOptions, Finished, Member, Node
from paceline.topologies.events import DeviceEvent, PhaseStarted, StateLost
from paceline.topologies.gossip import events
from paceline.topologies.gossip.balance import Balancer
from paceline.topologies.gossip.calls import HOLD_RATIO, Gone, PeerCalls, Transfers, uses_tls
from paceline.topologies.gossip.exchange import EpochResult, Exchange, ExchangeContext, fetch_newest
from paceline.topologies.gossip.final_average import FinalAverage, FinalAveraging
from paceline.topologies.gossip.keeping import PeerKeeper
from paceline.topologies.gossip.mass import FULL_MASS
from paceline.topologies.gossip.membership import MAX_ENCODED_BYTES, Membership, PeerRecord, Signer
from paceline.topologies.gossip.membership_exchange import ViewExchange
from paceline.topologies.gossip.messages import RELAY_PATH, ModelReply, PeerService, RelayService, View
from paceline.topologies.gossip.mixing import MixingExchange
from paceline.topologies.gossip.observer import OnEpoch
from paceline.topologies.gossip.peer_data import Holding, TrainingData
from paceline.topologies.gossip.peer_state import About, PeerState
from paceline.topologies.gossip.prepared import PreparedJob
from paceline.topologies.gossip.push_sum import PushSumExchange
from paceline.topologies.gossip.relay import Relay
from paceline.topologies.gossip.relay_client import RelayClient
from paceline.topologies.gossip.relayed_calls import CallSigner, Number, Poll, RelayedCall, RelayedReply, TakenCall
from paceline.topologies.gossip.storage import PeerStorage
from paceline.topologies.gossip.stores import FallbackStore, GossipedStore, Store
from paceline.topologies.sessions import Changes, check_name

_POLL_SECONDS = 10.0  # the longest that an answer is waited for in one call, however long the patience is
_RELAY_POLL_RATIO = (
    1 / 6
)  # part of its patience that a peer holds back a poll: what is lost shows long before that is over
_START_SECONDS = 0.2  # between two looks whether enough peers are there
_CATCH_UP_SECONDS = 10.0  # that a newcomer tries to get a model
_MIN_SAMPLES = 2  # that a peer trains in an epoch, however slow it is: enough for batch normalisation
_MAX_TEXT = 200  # characters, of what another sends
_KEPT_CONTACTS = 16  # addresses of others that a peer keeps, to find them again


@dataclass
class _Progress:
    """How far a peer is, and the model that it has."""

    parameters: Vectors
    epoch: int = 0
    ratio: float = 1.0
    samples_per_second: float = 0.0
    scores: Scores | None = None


def _progress_of(state: PeerState) -> _Progress:
    return _Progress(state.parameters, state.about.epoch)


def _figures(found: _Progress | EpochResult) -> dict[str, Any]:
    """Return all that is recorded of it, by field: everything but the model and what that achieves."""
    return {name: value for name, value in vars(found).items() if name not in ("parameters", "scores")}


class _Resources:
    """What a peer uses on its device, and lets go of at the end; `ConfigError` for options that cannot be."""

    def __init__(self, options: DeviceOptions, run: str) -> None:
        self.store: Store | None = None  # figures are shared by gossip alone
        self.predictor: Predictor = RecentPredictor()
        self._monitor: ContentionMonitor | None = None
        if options.store_url is not None:
            from paceline.topologies.gossip.redis_store import RedisStore  # a package that few need

            self.store = RedisStore(options.store_url, run)
        if options.contention is not None:
            profile, self._monitor = load_profile(options.contention), ContentionMonitor()
            self.predictor = ContentionPredictor(profile.seconds_per_sample, profile.slowdown, self._monitor.usage)

    @contextlib.asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Watch the device while the block runs, and let go of the store after it."""
        try:
            with self._monitor or contextlib.nullcontext():
                yield
        finally:
            if self.store is not None:
                await self.store.aclose()


class Peer(Member, PeerService, RelayService):
    """One of those that train together without a server.

    Args:
        holding: the data on its device.
        evaluates: whether it tries its models on the test data.
        on_epoch: receives the model after each epoch.
        is_kept: whether what it needs to go on is wanted after each epoch; in any case if it has a storage.
        given: what it goes on from, as `PeerState.packed`; None for what is in its storage, if anything is.
    """

    audit: AuditLog
    calls: ClassVar[frozenset[str]] = PeerService.__abstractmethods__
    further_calls: ClassVar[Mapping[str, frozenset[str]]] = {RELAY_PATH: RelayService.__abstractmethods__}

    def __init__(
        self,
        prepared: PreparedJob,
        node: Node,
        holding: Holding,
        *,
        evaluates: bool = False,
        on_epoch: OnEpoch = lambda name, epoch, parameters: None,
        is_kept: bool = False,
        given: State | None = None,
    ) -> None:
        check_name(node.name)
        job = prepared.job
        self.name = node.name
        self.audit = AuditLog(node.folder)
        self._prepared = prepared
        self._job = job
        self._node = node
        self._evaluates = evaluates
        self._on_epoch = on_epoch
        trainer = node.machine.trainer(prepared.training)
        prepared.evaluate_on(node.machine.accelerator)
        start = prepared.begin(trainer)
        self._early_stopping = job.early_stopping()
        self._history: list[Scores] = []
        storage = None if node.options.state_file is None else PeerStorage(node.options.state_file)
        self._is_kept = is_kept or storage is not None
        self._keeper = PeerKeeper(storage, given, node.run_blocking)
        self._restored = self._keeper.read(job=job.fingerprint, name=node.name, like=start)
        self._progress = _Progress(start) if self._restored is None else _progress_of(self._restored[0])
        self._end_reason: events.PeerEndReason = "epochs done"
        self._changes = Changes()
        self._is_suspended = self._is_in_epoch = False
        self._model_bytes = sum(vector.nbytes for vector in start.values())
        self._data = TrainingData(job, node.name, holding, trainer)
        me = PeerRecord(
            name=node.name,
            address="",
            life=node.life,
            fingerprint=node.fingerprint,
            parts=holding.parts,
            # After all others, until it is known whether training has begun: nobody should wait for this peer.
            first_epoch=job.epochs + 1 if node.contacts or self._restored is not None else 1,
            epoch=self._progress.epoch,
        )
        believed = Signer(job.fingerprint, node.key, uses_tls=uses_tls(node))
        self._membership = Membership(me, self._report_change, epochs=job.epochs, signer=believed)
        self._hold_seconds = min(_POLL_SECONDS, HOLD_RATIO * job.patience_seconds)
        signer = CallSigner(job.fingerprint, node.name, node.key)
        self._relay = Relay(
            signer,
            lambda: self._membership.me,
            poll_seconds=min(_POLL_SECONDS, _RELAY_POLL_RATIO * job.patience_seconds),
            hold_seconds=job.patience_seconds + Transfers(self._model_bytes).longest_seconds,
            max_message_bytes=self._model_bytes + MAX_ENCODED_BYTES,
        )
        self._peer_calls = PeerCalls(self._membership, node, job.patience_seconds, self._model_bytes, self._relay)
        rng = random.Random(f"{job.seed}/{node.name}/{node.life}")
        self._views = ViewExchange(job, prepared.base, self._membership, self._peer_calls, rng)
        self._relay_client = self._make_relay_client(signer, rng) if node.options.behind_nat else None
        self._resources = _Resources(node.options, job.fingerprint)
        self._balancer = self._make_balancer()
        self._background = node.machine.background_load(self._download)
        self._context = ExchangeContext(
            job=job,
            name=node.name,
            trainer=trainer,
            membership=self._membership,
            calls=self._peer_calls,
            start=start,
            turn_to=lambda phase: self._turn_to(phase, self._progress.epoch + 1),
            journal=self._keeper.journal,
            sync_journal=self._keeper.sync_journal,
        )
        exchange = PushSumExchange if job.exchange == "push-sum" else MixingExchange
        self._exchange: Exchange = exchange(self._context)
        if self._restored is not None:
            self._exchange.restore(self._restored[1])  # now: what is pushed to it again must be known again
        self._averaging = FinalAveraging(self._membership, self._peer_calls, start)

    # A peer's life.

    async def run(self, address: str) -> Finished:
        async with self._resources.in_use():
            average = await self._take_part("" if self._relay_client is not None else address)
            await self.leave()
            self._keeper.discard()
            await self._relay.linger(self._longest_seconds)  # those whose relay this is may need others a little longer
        return Finished(self._end_reason, self._prepared.state(average.parameters))

    async def suspend(self) -> None:
        self._is_suspended = not self._node.is_stopping()
        await self._changes.until(lambda: not self._is_in_epoch)

    async def leave(self) -> None:
        await self._views.say_goodbye()
        if self._relay_client is not None:
            await self._relay_client.aclose()

    async def _take_part(self, address: str) -> FinalAverage:
        self._membership.amend(address=address)
        probing = asyncio.ensure_future(self._views.probe_others())
        try:
            first = await self._begin()
            for epoch in range(first, self._job.epochs + 1):
                if self._node.is_stopping() or self._membership.why_over() is not None:
                    break
                await self._views.check_rival()
                if self._is_suspended:
                    await asyncio.get_running_loop().create_future()
                self._is_in_epoch = True
                await self._train(epoch)
                self._is_in_epoch = False
                self._changes.notify()
            self._end_reason = self._why_ended()
            self._membership.amend(is_done=True)
            average = await self._averaging.reach(await self._exchange.finish(self._progress.parameters))
            await self._end(first, average)
            await self._averaging.linger(self._longest_seconds)
            return average
        finally:
            probing.cancel()
            await asyncio.wait((probing,))
            await self._exchange.aclose()
            await self._background.aclose()
            self._keeper.close()
            self.audit.close()

    async def _begin(self) -> int:
        """Join others, get ready, and wait for enough of them; returns the first epoch to train."""
        if self._keeper.lost is not None:
            self._node.record(StateLost, what=f"{self.name}: {self._keeper.lost}")
        introducer = await self._views.join(self._node.contacts)
        if self._relay_client is not None:
            await self._relay_client.begin(lambda: self._views.join(self._node.contacts))
        await self._views.check_rival()  # or this one would be given the share of its former life again
        if introducer is None and self._restored is None:
            self._membership.amend(first_epoch=1)
        self._turn_to("benchmark", 0)
        self._resources.predictor.observe(1, 1 / await self._data.measure())
        self._turn_to("aggregate", 0)
        made = await self._data.aggregate()
        if made is not None:
            self._report(
                events.PointsMade,
                num_points=len(made.points.y),
                num_samples=self._data.num_samples,
                seconds=made.seconds,
                is_cached=made.is_cached,
            )
        self._turn_to("idle", 0)
        await self._balancer.publish_speed(0, self._data.num_samples)
        if self._restored is not None:
            first = await self._go_on(self._restored[0])
        elif introducer is None:
            first = 1
            self._exchange.begin(FULL_MASS)
        else:
            first = await self._catch_up(introducer)
        while first == 1 and not self._are_enough() and not self._node.is_stopping():
            await self._views.check_rival()
            silent = [record for record in self._membership.others() if record.figures is None]
            await self._views.exchange_with_one(silent)
            await asyncio.sleep(_START_SECONDS)
        await self._keep()
        known = tuple(record.name for record in self._membership.others())
        data, machine = self._data, self._node.machine
        about = {"address": self._membership.me.address, "num_samples": data.num_samples, "threads": data.threads}
        computing = {"device": machine.accelerator_name, "precision": self._job.precision}
        self._report(events.PeerStarted, **about, **computing, epoch=first, known=known, power=machine.meter.described)
        return first

    async def _catch_up(self, introducer: str) -> int:
        """Take the newest model of a peer, with a share of its mass; returns the epoch to begin with."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _CATCH_UP_SECONDS
        others = [record.name for record in self._membership.others() if record.name != introducer]
        while (reply := await self._adopt([introducer, *others], with_share=True)) is None:
            if loop.time() >= until:
                raise PacelineError("all peers that train this job have gone; join again when others are there")
            await self._views.join(self._node.contacts)  # over a slow link, they may have been taken for gone too soon
            others = [record.name for record in self._membership.others() if record.name != introducer]
        self._exchange.begin(reply.mass)
        return await self._begin_after(self._epoch_with_others(reply.epoch) - 1)

    async def _go_on(self, state: PeerState) -> int:
        """Go on from what was kept, once the others are back that are; returns the epoch to begin with.

        If those that it mixes with are more than an epoch ahead, their newest model is taken, which knows what this one
        did. In push-sum, each goes on from its own, with its mass.
        """
        about = state.about
        self._context.trainer.restore(state.trainer)
        self._data.go_on_after(about.num_drawn)
        for loss, metrics in about.figures:
            self._remember(Scores(loss, metrics))
        self._membership.amend(first_epoch=about.epoch + 1, why_enough=about.why_enough)
        await self._views.reunite(about.others, [Contact(*contact) for contact in about.contacts])
        newest, last = max((record.epoch for record in self._membership.others()), default=0), about.epoch
        if self._job.exchange == "mixing" and newest > last + 1:  # in push-sum, nobody keeps step
            reply = await self._adopt([record.name for record in self._membership.others()], with_share=False)
            last = last if reply is None else self._epoch_with_others(reply.epoch) - 1
        return await self._begin_after(last)

    async def _adopt(self, names: Sequence[str], *, with_share: bool) -> ModelReply | None:
        """Take the newest model of the first of these that has one to give."""
        for name in names:
            await self._views.exchange_with(name)  # a share is given to those that are known
            reply = await fetch_newest(name, self._context, with_share=with_share)
            if reply is not None:
                self._progress.parameters = reply.parameters
                return reply
        return None

    def _epoch_with_others(self, epoch: int) -> int:
        """Return the first epoch that this peer can train with others, one of whom has trained this one."""
        newest = max([epoch, *(record.epoch for record in self._membership.others())])
        # Those that mix the next epoch do not know of this peer yet; for the one after, they will.
        return min(newest + (2 if self._job.exchange == "mixing" else 1), self._job.epochs)

    async def _begin_after(self, epoch: int) -> int:
        self._progress.epoch = epoch
        self._membership.amend(first_epoch=epoch + 1, epoch=epoch)
        await self._views.exchange_with_all()
        return epoch + 1

    def _are_enough(self) -> bool:
        living = self._membership.living()
        return sum(record.figures is not None for record in living) >= self._job.min_peers or any(
            record.epoch for record in living
        )

    async def _train(self, epoch: int) -> None:
        loop, progress = asyncio.get_running_loop(), self._progress
        traffic, meter = self._context.traffic, self._node.machine.meter
        start, before = loop.time(), (traffic.sent, traffic.received)
        meter.read()  # what was before does not belong to the epoch
        self._background.begin_round()
        num_kept, rate = await self._balancer.decide(epoch, self._node.now(), self._data)
        num_kept = min(max(_MIN_SAMPLES, num_kept), self._data.num_samples)
        progress.ratio, progress.samples_per_second = num_kept / self._data.num_samples, rate
        self._turn_to("rank" if self._job.points is not None else "train", epoch)
        shard, rank_seconds = await self._data.choose(progress.parameters, epoch, num_kept)
        self._turn_to("train", epoch)
        result = await self._exchange.train(epoch, progress.parameters, shard)
        self._resources.predictor.observe(result.num_samples, result.train_seconds)
        seconds = loop.time() - start
        progress.epoch, progress.parameters = epoch, result.parameters
        self._membership.amend(epoch=epoch)
        if self._evaluates and self._job.evaluate_samples:
            progress.scores = await self._evaluate(result.parameters, self._job.evaluate_samples)
            self._remember(progress.scores)
            if self._early_stopping.reason is not None and self._membership.me.why_enough is None:
                self._membership.amend(why_enough=self._early_stopping.reason)
        await self._keep()
        sent, received = traffic.sent - before[0], traffic.received - before[1]
        cpu_seconds, joules = meter.read(sent + received)
        used = {"bytes_sent": sent, "bytes_received": received, "cpu_seconds": cpu_seconds, "joules": joules}
        more = {"seconds": seconds, "rank_seconds": rank_seconds, "mass": self._exchange.mass}
        figures = {**_figures(result), **_figures(progress), **fields_of(progress.scores)}
        self._report(events.EpochEnded, **figures, **used, **more)
        self._on_epoch(self.name, epoch, result.parameters)

    def _remember(self, scores: Scores) -> None:
        self._history.append(scores)
        self._early_stopping.add(scores)

    # What it needs to go on after it was interrupted.

    async def _keep(self) -> None:
        """Keep how far it is, if that is wanted."""
        if not self._is_kept:
            return
        progress, others = self._progress, self._membership.others()
        about = About(
            job=self._job.fingerprint,
            name=self.name,
            epoch=progress.epoch,
            num_drawn=self._data.num_drawn,
            figures=tuple(tuple(scores) for scores in self._history),  # type: ignore[misc]
            why_enough=self._membership.me.why_enough,
            others=tuple(record.name for record in others),
            contacts=tuple((record.address, record.fingerprint) for record in others[:_KEPT_CONTACTS]),
            mass=self._exchange.mass_state(),
        )
        state = PeerState(about=about, parameters=progress.parameters, trainer=self._context.trainer.memory())
        await self._keeper.keep(state)

    def state(self) -> PeerState | None:
        """Return what it needs to go on: its model after the last epoch, and its mass now; None before the first."""
        newest = self._keeper.newest
        return None if newest is None else newest.with_mass(self._exchange.mass_state())

    async def _end(self, first: int, average: FinalAverage) -> None:
        scores = await self._evaluate(average.parameters) if self._evaluates else None
        self._turn_to("idle", self._progress.epoch)
        self._report(
            events.PeerEnded,
            reason=self._end_reason,
            epochs=self._progress.epoch - first + 1,
            averaged=average.averaged,
            **fields_of(scores),
        )

    def _why_ended(self) -> events.PeerEndReason:
        is_complete = self._progress.epoch >= self._job.epochs
        return self._membership.why_over() or ("epochs done" if is_complete else "stopped early")

    async def _evaluate(self, parameters: Vectors, num_samples: int = 0) -> Scores:
        """Return what a model achieves on so many test samples, or on all for 0."""
        state = self._prepared.state(parameters)
        found: Scores = await self._node.run_blocking(lambda: self._prepared.evaluate(state, num_samples))
        return found

    @property
    def _longest_seconds(self) -> float:
        """How long a peer may be out of reach, and a model on its way."""
        return self._job.patience_seconds + self._peer_calls.transfers.longest_seconds

    # What others call.

    async def exchange_views(self, view: View) -> View:
        with self._recorded_if_refused(view.learner):
            return self._views.answer(view)

    async def fetch_model(self, epoch: int, base: int) -> ModelReply:
        return self._counted(await self._exchange.fetch_model(epoch, base, self._hold_seconds))

    async def push(self, learner: str, transfer: str, mass: int, parameters: dict[str, Any]) -> bool:
        return await self._exchange.push(transfer[:_MAX_TEXT], mass, parameters)

    async def fetch_newest(self, learner: str, transfer: str) -> ModelReply:
        newcomer, mass = self._membership.get(learner), 0
        if transfer and newcomer is not None and newcomer.is_living:
            mass = self._exchange.share(newcomer, transfer[:_MAX_TEXT])
        newest = self._progress
        return self._counted(ModelReply(status="ready", epoch=newest.epoch, parameters=newest.parameters, mass=mass))

    async def fetch_trained(self) -> ModelReply:
        return self._counted(await self._averaging.reply_with_own(self._hold_seconds))

    async def fetch_average(self, learner: str) -> ModelReply:
        return self._counted(await self._averaging.reply_with_average(self._hold_seconds))

    async def take_call(self, poll: Poll) -> TakenCall | None:
        if not self._node.options.passes_calls:
            raise ValueError("this peer passes no calls on to others")
        with self._recorded_if_refused(poll.name, poll.key):
            return await self._relay.take(poll)

    async def answer_call(self, number: Number, reply: RelayedReply) -> bool:
        with self._recorded_if_refused():
            return await self._relay.answer(number, reply)

    async def call_by_relay(self, call: RelayedCall) -> RelayedReply | None:
        return await self._relay.call(call)

    def status(self) -> dict[str, Any]:
        progress, store = self._progress, self._resources.store
        return {
            "learner": self.name,
            **_figures(progress),
            **figures_of(progress.scores, self._prepared.metric_names),
            "epochs": self._job.epochs,
            "living": [record.name for record in self._membership.living()],
            "gone": [record.name for record in self._membership.everybody() if not record.is_living],
            "is_done": self._membership.me.is_done,
            "store": "" if store is None else store.name,
        }

    def device_states(self) -> Mapping[str, int]:
        living = len(list(self._membership.living()))
        return {"living": living, "gone": len(list(self._membership.everybody())) - living}

    def current_state(self) -> State:
        return self._prepared.state(self._progress.parameters)

    # Helpers.

    @contextlib.contextmanager
    def _recorded_if_refused(self, name: str = "", key: str = "") -> Iterator[None]:
        """Record whose call is refused in the block."""
        try:
            yield
        except ValueError as error:
            address = access.caller.get().address
            self.audit.record("refusal", name=name, key=short(key), address=address, detail=str(error))
            raise

    def _make_relay_client(self, signer: CallSigner, rng: random.Random) -> RelayClient:
        if not signer.has_key:
            raise ConfigError("a peer behind NAT needs a key, to show that calls by way of others are its own")
        if not self._node.contacts:
            raise ConfigError("a peer behind NAT joins one that can be called: name that")
        worker = axon.Worker(self.name, limits=self._peer_calls.limits)
        for call in sorted(self.calls):
            worker.rpc(name=call)(getattr(self, call))

        async def announce(relay: PeerRecord) -> None:
            self._report(events.RelayFound, relay=relay.name, address=relay.address)
            await self._views.exchange_with_all()

        return RelayClient(
            worker.app(access.TokenAccess(None), self._node.transport, HostNames(access.LOOPBACK, ())),
            signer,
            self._membership,
            self._peer_calls,
            rng,
            self.audit,
            poll_seconds=self._relay.poll_seconds,
            hold_seconds=self._relay.hold_seconds,
            on_relay=announce,
        )

    def _make_balancer(self) -> Balancer:
        gossiped = GossipedStore(self._membership)
        store: Store = gossiped
        shared = self._resources.store
        if shared is not None:
            name = shared.name
            store = FallbackStore(
                shared,
                gossiped,
                on_lost=lambda reason: self._report(events.StoreLost, store=name, reason=reason),
                on_back=lambda: self._report(events.StoreBack, store=name),
            )
        policy = self._job.allocation
        assert isinstance(policy, BalancingPolicy)
        return Balancer(policy, self._membership, store, self._resources.predictor, self._node.emit)

    async def _download(self) -> None:
        """Download a model from one of the others, for nothing."""
        others = self._membership.others()
        if others:
            with contextlib.suppress(Gone):
                await self._peer_calls.call(random.choice(others).name, lambda peer: peer.fetch_newest.coro("", ""))

    def _counted(self, reply: ModelReply) -> ModelReply:
        self._context.traffic.sent += reply.num_bytes
        return msgspec.structs.replace(reply, members=self._membership.encoded())

    def _turn_to(self, phase: Phase, epoch: int) -> None:
        self._background.enter_phase(phase)
        self._report(PhaseStarted, round=epoch, phase=phase)

    def _report(self, kind: type[DeviceEvent], **fields: Any) -> None:
        self._node.record(kind, learner=self.name, **fields)

    def _report_change(self, record: PeerRecord, reason: str) -> None:
        if record.is_living:
            self._report(events.PeerSeen, other=record.name)
            where = record.address if record.relay is None else f"{record.address}, by way of {record.relay}"
            heard_from = access.caller.get().address
            self.audit.record("join", name=record.name, key=short(record.key), address=heard_from, detail=where)
        elif not (record.status == "left" and record.is_done):  # at the end, all say goodbye
            self._report(events.PeerLost, other=record.name, reason=reason[:_MAX_TEXT])
