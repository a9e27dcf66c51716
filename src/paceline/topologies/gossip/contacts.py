"""Calling other peers, and taking those for gone that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from paceline import axon
from paceline.axon import Limits
from paceline.axon.retry import retry
from paceline.axon.transports import Transport
from paceline.errors import PacelineError, Refused, RemoteError, Unreachable
from paceline.topologies.gossip.members import Member, Membership
from paceline.topologies.gossip.messages import PeerService, Shown, View

BROKEN = (PacelineError, ValueError, TypeError)
"""What comes of calling a peer whose record, listing or answers are rubbish, or that does not answer at all."""

PAUSE_SECONDS = 0.1
"""Before a peer that has nothing yet is asked again."""

_PATIENCE_OF_ONE_CALL_SECONDS = 30.0
_SLOW_BYTES_PER_SECOND = 50_000.0  # a model over a link like that still arrives in time
_OVERHEAD_BYTES = 1 << 23  # of a message, besides the parameters in it: what is known of thousands of peers


class Gone(PacelineError):
    """A peer that was called is gone."""


def call_seconds(model_bytes: int) -> float:
    """How long a call may take that brings a model of so many bytes."""
    return _PATIENCE_OF_ONE_CALL_SECONDS + model_bytes / _SLOW_BYTES_PER_SECOND


def limits_for(model_bytes: int) -> Limits:
    """What peers accept from each other, by what a model takes; anything larger is refused unread."""
    return Limits(max_body_bytes=model_bytes + model_bytes // 8 + _OVERHEAD_BYTES)


@dataclass(frozen=True, kw_only=True)
class Access:
    """How peers are reached.

    Attributes:
        transport: what carries calls; HTTP if None.
        token: what every peer wants to be shown.
        ca_file: authorities that signed certificates which are not self-made.
    """

    transport: Transport | None = None
    token: str | None = None
    ca_file: str | None = None

    def reach(self, address: str, fingerprint: str | None = None, model_bytes: int | None = None) -> axon.Remote:
        """A peer to call; `ConfigError` for what is no address.

        Args:
            model_bytes: what a model takes: nothing larger is accepted, and it is given the time to arrive.
        """
        return axon.connect(
            address,
            interface=PeerService,
            transport=self.transport,
            token=self.token,
            fingerprint=fingerprint,
            ca_file=None if fingerprint else self.ca_file,
            timeout_seconds=call_seconds(model_bytes or 0),
            **({} if model_bytes is None else {"limits": limits_for(model_bytes)}),
        )


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


class Contacts:
    """The other peers, to be called by name.

    Args:
        model_bytes: see `Access.reach`.
    """

    def __init__(self, membership: Membership, access: Access, patience_seconds: float, model_bytes: int) -> None:
        self._membership = membership
        self._access = access
        self._patience_seconds = patience_seconds
        self._model_bytes = model_bytes
        self._remotes: dict[str, tuple[int, axon.Remote]] = {}  # with the life that it is of
        self._calls: dict[asyncio.Future[Any], Member] = {}
        membership.watch(self._hang_up)

    def reach(self, address: str, fingerprint: str | None = None) -> axon.Remote:
        """Whoever is at an address; `ConfigError` for what is no address."""
        return self._access.reach(address, fingerprint, self._model_bytes)

    def remote(self, member: Member) -> axon.Remote:
        """A peer in this life of it, whether it is there or not; `ConfigError` as before."""
        life, remote = self._remotes.get(member.name, (None, None))
        if remote is None or life != member.life:
            remote = self.reach(member.address, member.fingerprint)
            self._remotes[member.name] = (member.life, remote)
        return remote

    async def call(self, name: str, ask: Callable[[axon.Remote], Coroutine[Any, Any, Any]]) -> Any:
        """Ask a peer until it answers, and learn what it tells of others.

        One that cannot be reached for long, says no, or tells rubbish, is buried.

        Raises `Gone` if it is, was before, or is found to be by others meanwhile. `ask` may be called again, and must
        bear that, and being cancelled.
        """
        member = self._membership.get(name)
        if member is None or not member.is_living:
            raise Gone(f"{name} is gone")
        try:
            remote = self.remote(member)
            answer = retry(lambda: ask(remote), give_up_seconds=self._patience_seconds)
            found = await self._unless_gone(member, answer)
            if isinstance(found, (View, Shown)) and found.members:
                self._membership.hear(found.members)
            return found
        except Gone:
            raise
        except BROKEN as error:
            self._bury(member, str(error))
            raise Gone(f"{name} is gone: {error}") from error

    def _bury(self, member: Member, reason: str) -> None:
        """Take a peer for gone, unless it has come back since in another life."""
        known = self._membership.get(member.name)
        if known is not None and known.life == member.life:
            self._membership.bury(member.name, reason)

    async def _unless_gone(self, member: Member, answer: Coroutine[Any, Any, Any]) -> Any:
        call = asyncio.ensure_future(answer)
        self._calls[call] = member
        try:
            await asyncio.wait((call,))
        finally:
            del self._calls[call]
            call.cancel()  # does nothing to one that is done
            await asyncio.gather(call, return_exceptions=True)
        if call.cancelled():
            raise Gone(f"{member.name} is gone")
        return call.result()

    def _hang_up(self, member: Member, reason: str) -> None:
        """End the calls to a peer that is gone, or to its life before."""
        for call, called in list(self._calls.items()):
            if called.name == member.name and (called.life != member.life or not member.is_living):
                call.cancel()
        if not member.is_living:
            self._remotes.pop(member.name, None)
