"""The way to a peer that only its relay reaches: requests are signed, and answers are believed from that peer alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from paceline.axon import loops
from paceline.axon.messages import Reply, Request
from paceline.axon.transports.base import Address, Transport, TransportWrapper
from paceline.errors import BadReply, ConfigError, ConnectionLost, Refused, RemoteError, TimedOut
from paceline.topologies.gossip.membership import PeerRecord
from paceline.topologies.gossip.relayed_calls import CallSigner, RelayedCall, RelayedReply

Forward: TypeAlias = Callable[[RelayedCall, float], Awaitable[RelayedReply | None]]
"""Hands a call to the relay, and returns what that does, within so many seconds."""


class RelayTransport(TransportWrapper):
    """Carries requests to one peer by way of its relay.

    What the relay refuses, or answers in place of the peer, says nothing of the peer, which may be found by another
    relay soon. It counts as an answer that was lost, for nobody but the relay knows whether the call got through.

    Args:
        to: record of the peer.
    """

    def __init__(self, inner: Transport, signer: CallSigner, to: PeerRecord, forward: Forward) -> None:
        super().__init__(inner)
        self._signer = signer
        self._to = to
        self._forward = forward

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        call = self._signer.call(
            self._to,
            method=request.method,
            path=request.path,
            content_type=request.headers.get("content-type", ""),
            call_id=request.headers.get("axon-call", ""),
            body=b"".join(request.body),
        )
        where = f"{self._to.name} by way of {self._to.relay}, {address}"
        try:
            reply = await loops.within(timeout, self._forward(call, timeout))
        except asyncio.TimeoutError:
            raise TimedOut(f"{where}: no answer within {timeout:g} s") from None
        except (Refused, BadReply, RemoteError, ConfigError) as error:
            raise ConnectionLost(f"{where}: {error}") from error
        if reply is None:
            raise ConnectionLost(f"{where}: it takes no calls there now")
        if not self._signer.is_of_called(call, reply):
            raise ConnectionLost(f"{where}: the answer is not signed by {self._to.name}")
        headers = {"content-type": reply.content_type} if reply.content_type else {}
        return Reply(reply.status, headers, [memoryview(bytearray(reply.body))])
