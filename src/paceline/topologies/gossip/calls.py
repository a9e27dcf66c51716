"""Calling other peers, and taking those for gone that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from paceline import axon
from paceline.axon import Limits
from paceline.axon.retry import retry
from paceline.errors import PacelineError, Refused, RemoteError, Unreachable
from paceline.topologies.base import Contact, Node
from paceline.topologies.gossip.membership import MAX_ENCODED_BYTES, Membership, PeerRecord
from paceline.topologies.gossip.messages import ModelReply, PeerService, View

BROKEN = (PacelineError, ValueError, TypeError)
"""What comes of calling a peer whose record or answers are malformed, or that does not answer at all."""

PAUSE_SECONDS = 0.1
"""Pause before a peer that has nothing yet is asked again."""

_PATIENCE_OF_ONE_CALL_SECONDS = 30.0
_SLOW_BYTES_PER_SECOND = 50_000.0  # a model over a link like that still arrives in time


class Gone(PacelineError):
    """A peer that was called is gone."""


def call_seconds(model_bytes: int) -> float:
    """Return how long a call may take that brings a model of so many bytes."""
    return _PATIENCE_OF_ONE_CALL_SECONDS + model_bytes / _SLOW_BYTES_PER_SECOND


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
        patience_seconds: how long a peer may be out of reach.
        model_bytes: size of a model: nothing much larger is accepted, and it is given the time to arrive.
    """

    def __init__(self, membership: Membership, node: Node, patience_seconds: float, model_bytes: int) -> None:
        self._membership = membership
        self._node = node
        self._patience_seconds = patience_seconds
        self._timeout_seconds = call_seconds(model_bytes)
        self._limits = Limits(max_body_bytes=model_bytes + model_bytes // 8 + MAX_ENCODED_BYTES)
        self._remotes: dict[str, tuple[int, axon.Remote]] = {}  # with the life that it is of
        self._calls: dict[asyncio.Future[Any], PeerRecord] = {}
        membership.watch(self._hang_up)

    def reach(self, contact: Contact) -> axon.Remote:
        """Return whoever is at an address, to be called; raises `ConfigError` for what is no address."""
        return self._node.connect(
            PeerService, timeout_seconds=self._timeout_seconds, contact=contact, limits=self._limits
        )

    def remote(self, record: PeerRecord) -> axon.Remote:
        """Return a peer in this life of it, whether it is there or not; raises `ConfigError` as before."""
        life, remote = self._remotes.get(record.name, (None, None))
        if remote is None or life != record.life:
            remote = self.reach(Contact(record.address, record.fingerprint))
            self._remotes[record.name] = (record.life, remote)
        return remote

    async def call(self, name: str, ask: Callable[[axon.Remote], Coroutine[Any, Any, Any]]) -> Any:
        """Ask a peer until it answers, and learn what it knows of others.

        One that cannot be reached for long, refuses, or answers with what is malformed, is declared dead.

        Raises `Gone` if it is, was before, or is found to be by others meanwhile. `ask` may be called again, and must
        bear that, and being cancelled.
        """
        record = self._membership.get(name)
        if record is None or not record.is_living:
            raise Gone(f"{name} is gone")
        try:
            remote = self.remote(record)
            answer = retry(lambda: ask(remote), give_up_seconds=self._patience_seconds)
            found = await self._unless_gone(record, answer)
            if isinstance(found, (View, ModelReply)) and found.members:
                self._membership.merge_encoded(found.members)
            return found
        except Gone:
            raise
        except BROKEN as error:
            self._declare_dead(record, str(error))
            raise Gone(f"{name} is gone: {error}") from error

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

    def _hang_up(self, record: PeerRecord, reason: str) -> None:
        """End the calls to a peer that is gone, or to its life before."""
        for call, called in list(self._calls.items()):
            if called.name == record.name and (called.life != record.life or not record.is_living):
                call.cancel()
        if not record.is_living:
            self._remotes.pop(record.name, None)
