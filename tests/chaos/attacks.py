"""Hostile callers, who know the address and have the token: what they try must be refused, and cost nobody anything."""

import asyncio
import contextlib
import math
import random

import torch

import paceline
from paceline import axon
from paceline.axon.client.remote import parse_address
from paceline.axon.messages import Request
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.errors import ConfigError, PacelineError, RemoteError, TransportError
from paceline.topologies.gossip.messages import PeerService, View
from paceline.topologies.parallel.messages import Declaration, OrchestratorService
from paceline.topologies.split.messages import TrunkService

_SERVICES = {"mixing": PeerService, "push-sum": PeerService, "split": TrunkService}
_HOST = "mallory-machine"
_CALL_SECONDS = 5.0
_FLOOD = 30  # calls at once


def _bad_vectors(like, rng):
    """Return what looks like parameters and is none, each in another way."""
    kind, vector = next(iter(like.items()))
    nan, infinite = vector.clone(), vector.clone()
    nan[rng.randrange(len(nan))] = math.nan
    infinite[rng.randrange(len(infinite))] = math.inf
    return [
        {**like, kind: nan},
        {**like, kind: infinite},
        {**like, kind: vector + 1e30},
        {**like, kind: vector[:-1]},
        {**like, kind: vector.reshape(1, -1)},
        {**like, kind: vector.double()},
        {**like, "more": vector},
        {},
    ]


class Attacker:
    """Attacks the roles of a world."""

    def __init__(self, world):
        self._world = world
        self._num_joined = 0
        self._num_calls = 0

    async def attack(self, fault, fleet):
        """Try what a fault says, and note whatever is let through."""
        rng = random.Random(fault.seed)
        service = _SERVICES.get(self._world.schedule.topology, OrchestratorService)
        address = fleet.address or f"http://{rng.choice(self._world.schedule.devices)['name']}:{DEFAULT_PORT}"
        self._transport = fleet.network.host(_HOST)
        try:
            remote = axon.connect(address, interface=service, transport=self._transport, timeout_seconds=_CALL_SECONDS)
        except ConfigError:
            return
        kind = {OrchestratorService: "orchestrator", PeerService: "peer", TrunkService: "trunk"}[service]
        with contextlib.suppress(TransportError):
            if fault.on == "garbage":
                await self._garbage(remote, rng)
            else:
                await getattr(self, f"_{fault.on.replace(' ', '_')}_at_{kind}")(remote, rng)

    async def _refused(self, what, call, *, may_be=None):
        """Make a call that must be refused; `may_be` says of its result whether that is as good."""
        self._num_calls += 1
        try:
            result = await call
        except (RemoteError, TransportError):
            return
        except PacelineError as error:
            self._world.fail(f"{what}: {error}")
            return
        if may_be is None or not may_be(result):
            self._world.fail(f"{what} was let through: {str(result)[:200]}")

    async def _garbage(self, remote, rng):
        """Send bytes that are no calls."""
        address = parse_address(remote.url)
        for path in ("/rpc/update", "/rpc/join", "/rpc/push", "/rpc/sync", "/", "/calls/x", "/rpc/" + "x" * 500):
            body = (rng.randbytes(rng.choice((0, 1, 40, 5000))),)
            request = Request(
                rng.choice(("POST", "GET", "PUT")), path, {}, {"content-type": "application/x-axon"}, body
            )
            reply = await self._transport.request(address, request, timeout=_CALL_SECONDS)
            if reply.status == 200 and path != "/":
                self._world.fail(f"garbage to {path} was answered with 200")

    # Orchestrators.

    async def _join_at_orchestrator(self, remote):
        self._num_joined += 1
        return await remote.join.coro(f"mallory-{self._num_joined}", paceline.__version__, 1.0)

    async def _wrong_sessions_at_orchestrator(self, remote, rng):
        for session in (rng.randbytes(16).hex(), "", "0" * 32, "x" * 10_000):
            vectors = self._some_vectors()
            await self._refused("an update without a session", remote.update.coro(session, 1, vectors, 8))
            await self._refused("taking without a session", remote.take.coro(session, 1, 1, None))
            await self._refused("leaving without a session", remote.leave.coro(session))
            await self._refused("waiting without a session", remote.next_round.coro(session, 0, None))
            await self._refused("declaring without a session", remote.declare.coro(session, Declaration()))
        for session in list(self._world.watcher._names)[:8]:  # those that are void
            if not self._world.watcher._is_valid(session):
                vectors = self._some_vectors()
                await self._refused("an update with a void session", remote.update.coro(session, 1, vectors, 8))

    def _some_vectors(self):
        rounds = next(iter(self._world.watcher.rounds.values()))
        return rounds._models[max(rounds._models)][0]

    async def _bad_updates_at_orchestrator(self, remote, rng):
        work, session, number = await self._take(remote, rng)
        if work is None:
            return
        most = sum(len(shard[0]) for shard in work.shards) or 8
        is_no = _is_refusal
        for num_samples in (0, -1, 10**12, most * 1000):
            call = remote.update.coro(session, number, work.parameters, num_samples)
            await self._refused(f"an update of {num_samples} samples", call, may_be=is_no)
        # One that has diverged ends the run of whoever is alone in a round, as docs/limits.md says.
        watcher = self._world.watcher.rounds.get("")
        others = watcher is not None and watcher.open is not None and len(watcher.open.taken) > 1
        bad = _bad_vectors(work.parameters, rng)
        for vectors in bad if others else bad[3:]:
            await self._refused("a bad update", remote.update.coro(session, number, vectors, most), may_be=is_no)
        for round in (0, -1, number + 1, number - 1, 2**40):
            call = remote.update.coro(session, round, work.parameters, most)
            await self._refused(f"an update of round {round} in {number}", call, may_be=is_no)
            await self._refused(f"taking in round {round} in {number}", remote.take.coro(session, round, 1, None))
        await self._refused("taking too much", remote.take.coro(session, number, 2**40, None))

    async def _take(self, remote, rng):
        """Join, and take work in a round that is open; None if there is none."""
        welcome = await self._join_at_orchestrator(remote)
        try:
            ticket = await remote.next_round.coro(welcome.session, 0, None)
            if ticket.status != "open":
                return None, welcome.session, 0
            own = 8 if self._world.schedule.topology == "federated" else None
            work = await remote.take.coro(welcome.session, ticket.round, 1, own)
        except RemoteError:
            return None, welcome.session, 0
        return work, welcome.session, ticket.round

    async def _repeats_at_orchestrator(self, remote, rng):
        """Take part as is right, and hand in the same again and again: it counts once, if at all."""
        work, session, number = await self._take(remote, rng)
        if work is None:
            return
        num_samples = sum(len(shard[0]) for shard in work.shards) or 8
        calls = [remote.update.coro(session, number, work.parameters, num_samples) for _ in range(5)]
        receipts = await asyncio.gather(*calls, return_exceptions=True)
        num_accepted = sum(getattr(receipt, "is_accepted", False) for receipt in receipts)
        if num_accepted > 1:
            self._world.fail(f"the same update was let in {num_accepted} times")
        with contextlib.suppress(RemoteError):
            await remote.leave.coro(session)
        await self._refused(
            "an update after leaving",
            remote.update.coro(session, number, work.parameters, num_samples),
            may_be=_is_refusal,
        )

    async def _flood_at_orchestrator(self, remote, rng):
        names = ["", " ", "x" * 100, "a/b", "\n", "mallory\0"]
        for name in names:
            await self._refused("a bad name", remote.join.coro(name, paceline.__version__, 1.0))
        for price in (-1.0, math.nan, math.inf):
            await self._refused("a bad price", remote.join.coro("mallory", paceline.__version__, price))
        await self._refused("another version", remote.join.coro("mallory", "0.0.1", 1.0))
        calls = [remote.join.coro("mallory-flood", paceline.__version__, 1.0) for _ in range(_FLOOD)]
        welcomes = [one for one in await asyncio.gather(*calls, return_exceptions=True) if hasattr(one, "session")]
        if not welcomes:
            return
        session = welcomes[-1].session
        for count in (-1, 10**9):
            await self._refused("too many shards to measure with", remote.sample.coro(session, count, True))
            await self._refused("too many bytes", remote.fill.coro(session, count))
        for _ in range(_FLOOD):
            with contextlib.suppress(RemoteError):
                await remote.report_divergence.coro(session, 1, "x" * 1000)
        with contextlib.suppress(RemoteError):
            await remote.leave.coro(session)

    async def _takeover_at_orchestrator(self, remote, rng):
        """Tasks of others: submitting, following, helping to unmask."""
        await self._refused("a job that is none", remote.submit.coro({"job": {"rounds": "many"}}))
        await self._refused("following nothing", remote.follow.coro("nothing"))
        for session in ("", "0" * 32):
            await self._refused("showing keys", remote.show_keys.coro(session, 1, b"", b""))
            await self._refused("revealing", remote.reveal.coro(session, 1, {"a": b""}))
            await self._refused("reporting divergence", remote.report_divergence.coro(session, 1, "nan"))

    # Peers.

    def _some_peer(self):
        peers = self._world.watcher._peers
        return peers[-1] if peers else None

    async def _wrong_sessions_at_peer(self, remote, rng):
        for view in ({"job": "another"}, {"base": "another"}, {"version": "0.0.1"}):
            fields = {"job": self._world.job.fingerprint, "base": "", "version": paceline.__version__, **view}
            call = remote.exchange_views.coro(View(learner="mallory", members=b"", **fields))
            await self._refused(f"a view of {view}", call)

    async def _bad_updates_at_peer(self, remote, rng):
        peer = self._some_peer()
        if peer is None:
            return
        like = peer._progress.parameters
        for vectors in _bad_vectors(like, rng):
            await self._refused("a bad push", remote.push.coro("mallory", "m/1", 1 << 50, vectors))
        for mass in (0, -1, 1 << 62 << 30):
            await self._refused(f"a push of mass {mass}", remote.push.coro("mallory", f"m/{mass}", mass, like))

    async def _repeats_at_peer(self, remote, rng):
        """Ask for a share of the mass under a name that nobody has, again and again."""
        for number in range(5):
            with contextlib.suppress(RemoteError):
                reply = await remote.fetch_newest.coro("mallory", f"m/{number}")
                if reply.mass:
                    self._world.fail(f"a stranger was given a mass of {reply.mass}")

    async def _flood_at_peer(self, remote, rng):
        for members in (b"\xff" * 100, rng.randbytes(1000), b"[]"):
            fields = {"job": self._world.job.fingerprint, "base": "", "version": paceline.__version__}
            with contextlib.suppress(RemoteError, TransportError):
                await remote.exchange_views.coro(View(learner="mallory", members=members, **fields))
        calls = [remote.fetch_newest.coro("", "") for _ in range(_FLOOD)]
        await asyncio.gather(*calls, return_exceptions=True)

    async def _takeover_at_peer(self, remote, rng):
        for epoch, base in ((-1, 0), (10**9, 10**9)):
            with contextlib.suppress(RemoteError, TransportError):
                await remote.fetch_model.coro(epoch, base)

    # Trunks.

    async def _wrong_sessions_at_trunk(self, remote, rng):
        for session in (rng.randbytes(16).hex(), "", "0" * 32):
            tensors = {"x": torch.zeros(3)}
            await self._refused("a sync without a session", remote.sync.coro(session, 1, 0, tensors))
            await self._refused("waiting without a session", remote.next_epoch.coro(session, 0))
            await self._refused("leaving without a session", remote.leave.coro(session))

    async def _bad_updates_at_trunk(self, remote, rng):
        await self._wrong_sessions_at_trunk(remote, rng)

    _repeats_at_trunk = _takeover_at_trunk = _bad_updates_at_trunk

    async def _flood_at_trunk(self, remote, rng):
        for name in ("", "x" * 100, "trunk", "a/b"):
            await self._refused(f"the name {name!r}", remote.join.coro(name, paceline.__version__))
        await self._refused("another version", remote.join.coro("mallory", "0.0.1"))
        await asyncio.gather(*(remote.next_epoch.coro("0" * 32, 0) for _ in range(_FLOOD)), return_exceptions=True)


def _is_refusal(receipt):
    return not receipt.is_accepted
