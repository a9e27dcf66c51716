"""Calling other peers, and taking those for gone that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from paceline import axon
from paceline.axon import Limits
from paceline.axon.retry import retry
from paceline.errors import ConfigError, PacelineError, Refused, RemoteError, Unreachable
from paceline.topologies.base import Contact, Node
from paceline.topologies.gossip.membership import MAX_ENCODED_BYTES, Membership, PeerRecord
from paceline.topologies.gossip.messages import RELAY_PATH, ModelReply, PeerService, RelayService, View
from paceline.topologies.gossip.relay import Relay
from paceline.topologies.gossip.relay_transport import RelayTransport
from paceline.topologies.gossip.relayed_calls import RelayedCall, RelayedReply

BROKEN = (PacelineError, ValueError, TypeError)
"""What comes of calling a peer whose record or answers are malformed, or that does not answer at all."""

PAUSE_SECONDS = 0.1
"""Pause before a peer that has nothing yet is asked again."""

HOLD_RATIO = 0.5
"""Part of its patience that a peer holds a call back at most, when it waits for what is asked for."""

_SLOW_BYTES_PER_SECOND = 50_000.0  # a model over a link like that still arrives in time
_SLOWED_DOWN = 8.0  # times that a link may be slower than it was before


class Gone(PacelineError):
    """A peer that was called is gone."""


def uses_tls(node: Node) -> bool:
    """Return whether a peer calls others over TLS only: if it has a certificate, or is to join one that has."""
    return node.fingerprint is not None or any(contact.address.startswith("https://") for contact in node.contacts)


class Transfers:
    """How long models may be on their way from and to each peer, as far as that is known from those before.

    Args:
        model_bytes: size of a model.
    """

    def __init__(self, model_bytes: int) -> None:
        self.longest_seconds = model_bytes / _SLOW_BYTES_PER_SECOND
        self._quickest: dict[str, float] = {}

    def allowed_seconds(self, name: str) -> float:
        """Return how long a model may take between this peer and another."""
        known = self._quickest.get(name)
        return self.longest_seconds if known is None else min(self.longest_seconds, _SLOWED_DOWN * known)

    def add(self, name: str, seconds: float) -> None:
        """Take note of how long a model took, and the answer that brought it."""
        self._quickest[name] = min(seconds, self._quickest.get(name, seconds))

    def forget(self, name: str) -> None:
        """Forget a peer that is gone: it may come back by another link."""
        self._quickest.pop(name, None)


class Delivery:
    """Several attempts to bring something to a peer, or to get it from there.

    Attributes:
        is_uncertain: whether one of them may have come through, and its answer was lost.
    """

    def __init__(self) -> None:
        self.is_uncertain = False

    async def attempt(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Make a call."""
        before, self.is_uncertain = self.is_uncertain, True
        try:
            answer = await call
        except (Unreachable, Refused, RemoteError):
            self.is_uncertain = before
            raise
        self.is_uncertain = False
        return answer


class PeerCalls:
    """Calls to the other peers, by name.

    Args:
        patience_seconds: how long a peer may be out of reach: the deadline of a call, with all of its attempts, besides
            the time that a model takes.
        model_bytes: size of a model: nothing much larger is accepted.
        relay: what this peer holds of calls to others; without one, it calls nobody by way of a relay.

    Attributes:
        transfers: how long models take from and to the others.
        limits: what is accepted of others.
    """

    def __init__(
        self, membership: Membership, node: Node, patience_seconds: float, model_bytes: int, relay: Relay | None = None
    ) -> None:
        self._membership = membership
        self._node = node
        self._uses_tls = node is not None and uses_tls(node)
        self._patience_seconds = patience_seconds
        self.transfers = Transfers(model_bytes)
        self._relay = relay
        self.limits = Limits(max_body_bytes=model_bytes + model_bytes // 8 + MAX_ENCODED_BYTES)
        self._remotes: dict[str, tuple[PeerRecord, axon.Remote]] = {}
        self._calls: dict[asyncio.Future[Any], PeerRecord] = {}
        membership.watch(self._hang_up)
        membership.watch_moves(self._hang_up)

    @property
    def longest_seconds(self) -> float:
        """Longest that a call may take of which nothing is known."""
        return self._patience_seconds + self.transfers.longest_seconds

    def reach(self, contact: Contact) -> axon.Remote:
        """Return whoever is at an address, to be called; raises `ConfigError` for what is no address.

        A peer that uses TLS shows its token to nobody else.
        """
        return self._reach(contact, PeerService)

    def reach_relay(self, record: PeerRecord) -> axon.Remote:
        """Return the relay at the address in a record, to be called as that; raises `ConfigError` as before."""
        return self._reach(Contact(record.address, record.fingerprint), RelayService, RELAY_PATH)

    def _reach(self, contact: Contact, interface: type, path: str = "") -> axon.Remote:
        if self._uses_tls and not contact.address.startswith("https://"):
            raise ConfigError(f"{contact.address} has no TLS, and this peer calls nobody without; use https://")
        return self._node.connect(
            interface, timeout_seconds=self.longest_seconds, contact=contact, path=path, limits=self.limits
        )

    def remote(self, record: PeerRecord) -> axon.Remote:
        """Return a peer where its record says, whether it is there or not; raises `ConfigError` as before."""
        known, remote = self._remotes.get(record.name, (None, None))
        if known is None or remote is None or not known.is_signed_like(record):
            remote = self._connect(record)
            self._remotes[record.name] = (record, remote)
        return remote

    def _connect(self, record: PeerRecord) -> axon.Remote:
        if record.relay is None:
            return self.reach(Contact(record.address, record.fingerprint))
        if self._relay is None or not self._relay.signer.has_key:
            raise ConfigError(f"{record.name} is called by way of {record.relay}, and this peer has no key to do that")
        own_relay, at_relay = self._relay, self.reach_relay(record)

        async def forward(call: RelayedCall, seconds: float) -> RelayedReply | None:
            if record.relay == self._membership.me.name:
                return await own_relay.call(call)
            until = asyncio.get_running_loop().time() + seconds
            reply: RelayedReply | None = await at_relay.until(until).call_by_relay.coro(call)
            return reply

        return axon.connect(
            record.address,
            interface=PeerService,
            transport=RelayTransport(self._node.transport, own_relay.signer, record, forward),
            timeout_seconds=self._patience_seconds + self.transfers.longest_seconds,
            limits=self.limits,
        )

    async def call(
        self, name: str, ask: Callable[[axon.Remote], Coroutine[Any, Any, Any]], *, brings_model: bool = True
    ) -> Any:
        """Ask a peer until it answers, and learn what it knows of others.

        One that does not answer for as long as it may, refuses, or answers with what is malformed, is declared dead.

        One that takes another relay meanwhile is asked there.

        Raises `Gone` if it is, was before, or is found to be by others meanwhile. `ask` may be called again, and must
        bear that, and being cancelled.
        """
        while True:
            record = self._membership.get(name)
            if record is None or not record.is_living:
                raise Gone(f"{name} is gone")
            try:
                return await self._call_at(record, ask, brings_model=brings_model)
            except Gone:
                if not self._has_moved(record):
                    raise
            except BROKEN as error:
                if not self._has_moved(record):
                    self._declare_dead(record, str(error))
                    raise Gone(f"{name} is gone: {error}") from error

    async def _call_at(
        self, record: PeerRecord, ask: Callable[[axon.Remote], Coroutine[Any, Any, Any]], *, brings_model: bool
    ) -> Any:
        """Ask a peer where its record says."""
        loop = asyncio.get_running_loop()
        start, seconds = loop.time(), self._patience_seconds
        if brings_model:
            seconds += self.transfers.allowed_seconds(record.name)
        if record.relay is not None:
            seconds += self._patience_seconds  # if that is gone, the peer has to miss it, and find another
        remote, until = self.remote(record), start + seconds
        answer = retry(lambda: ask(remote.until(until)), give_up_seconds=seconds, until=until)
        found = await self._unless_gone(record, answer)
        if brings_model and not (isinstance(found, ModelReply) and not found.parameters):
            self.transfers.add(record.name, loop.time() - start)
        if isinstance(found, (View, ModelReply)) and found.members:
            self._membership.merge_encoded(found.members)
        return found

    def _has_moved(self, record: PeerRecord) -> bool:
        """Return whether a peer takes its calls elsewhere by now, in the same life."""
        known = self._membership.get(record.name)
        return known is not None and known.is_living and known.life == record.life and known.moves != record.moves

    def _declare_dead(self, record: PeerRecord, reason: str) -> None:
        """Take a peer for gone, unless it has come back since in another life."""
        known = self._membership.get(record.name)
        if known is not None and known.life == record.life:
            self._membership.declare_dead(record.name, reason)

    async def _unless_gone(self, record: PeerRecord, answer: Coroutine[Any, Any, Any]) -> Any:
        call = asyncio.ensure_future(answer)
        self._calls[call] = record
        try:
            await asyncio.wait((call,))
        finally:
            del self._calls[call]
            call.cancel()  # does nothing to one that is done
            await asyncio.gather(call, return_exceptions=True)
        if call.cancelled():
            raise Gone(f"{record.name} is gone")
        return call.result()

    def _hang_up(self, record: PeerRecord, reason: str = "") -> None:
        """End the calls to a peer that is gone, or to where it was before."""
        for call, called in list(self._calls.items()):
            if called.name == record.name and not (record.is_living and called.is_signed_like(record)):
                call.cancel()
        if not record.is_living:
            self._remotes.pop(record.name, None)
            self.transfers.forget(record.name)
