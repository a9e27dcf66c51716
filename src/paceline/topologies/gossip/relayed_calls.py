"""Calls that reach a peer by way of another one: what passes there, each piece signed by whom it comes from."""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from paceline.axon.keys import DeviceKey, is_signed
from paceline.topologies.gossip.membership import Key, Life, Name, PeerRecord, Signature

Number: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 62)]
"""A number that only grows."""

_ContentType: TypeAlias = Annotated[str, Meta(max_length=100)]


class RelayedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a peer that only its relay reaches.

    Attributes:
        to: name of the peer that is called, `to_key` its key, and `life` the one that it is in: in another, the call
            does not count.
        caller: name of the peer that calls, and `key` its key.
        nonce: drawn at random, so that an answer is to this call and no other.
        call_id: see `axon.CallOptions.once`; empty for none.
        signature: of the caller, of all of this and of the job.
    """

    to: Name
    to_key: Key
    life: Life
    caller: Name
    key: Key
    nonce: Annotated[bytes, Meta(max_length=16)]
    method: Literal["GET", "POST"]
    path: Annotated[str, Meta(max_length=200)]
    content_type: _ContentType = ""
    call_id: Annotated[str, Meta(max_length=128)] = ""
    body: bytes = b""
    signature: Signature = b""


class RelayedReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a relayed call, signed by the peer that was called, together with the call."""

    status: Annotated[int, Meta(ge=200, le=599)]
    content_type: _ContentType = ""
    body: bytes = b""
    signature: Signature = b""


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A peer asks its relay for the next call to it.

    Attributes:
        number: grows with each poll, so that nobody can repeat one.
        after: number of the last call that it has.
        intent: ``wait`` for a call; ``open``: only say whether there is a mailbox; ``close``: it needs that no more.
        signature: of the peer, of all of this, of the job, and of the relay and its life.
    """

    name: Name
    key: Key
    number: Number
    after: Number = 0
    intent: Literal["open", "wait", "close"] = "wait"
    signature: Signature = b""


class TakenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the peer takes it from its relay, under a number that the answer names."""

    number: Number
    call: RelayedCall


class CallSigner:
    """Signs what a peer sends by way of relays, and judges what comes to it.

    Args:
        job: fingerprint of the job, so that nothing counts in another.
        key: key of the peer; without one, it neither uses relays nor calls anybody by them.
    """

    def __init__(self, job: str, name: str, key: DeviceKey | None) -> None:
        self._job = job
        self._name = name
        self._key = key

    @property
    def has_key(self) -> bool:
        """Whether it can sign at all."""
        return self._key is not None

    @property
    def public(self) -> str:
        """The peer's public key; empty if it has none."""
        return "" if self._key is None else self._key.public

    def is_for_me(self, call: RelayedCall) -> bool:
        """Return whether a call is to this peer, in whatever life."""
        return (call.to, call.to_key) == (self._name, self.public)

    def call(self, to: PeerRecord, **request: Any) -> RelayedCall:
        """Return a signed call to a peer."""
        nonce = secrets.token_bytes(16)
        call = RelayedCall(
            to=to.name, to_key=to.key, life=to.life, caller=self._name, key=self.public, nonce=nonce, **request
        )
        return msgspec.structs.replace(call, signature=self._sign(self._call(call)))

    def reply(self, call: RelayedCall, **answer: Any) -> RelayedReply:
        """Return a signed answer to a call."""
        reply = RelayedReply(**answer)
        return msgspec.structs.replace(reply, signature=self._sign(self._reply(call, reply)))

    def poll(self, relay: PeerRecord, **about: Any) -> Poll:
        """Return a signed poll of a relay."""
        poll = Poll(name=self._name, key=self.public, **about)
        return msgspec.structs.replace(poll, signature=self._sign(self._poll(relay, poll)))

    def is_of_caller(self, call: RelayedCall) -> bool:
        """Return whether a call was signed by the key that it names."""
        return is_signed(call.key, self._call(call), call.signature)

    def is_of_called(self, call: RelayedCall, reply: RelayedReply) -> bool:
        """Return whether an answer comes from the peer that was called, and is to this call."""
        return is_signed(call.to_key, self._reply(call, reply), reply.signature)

    def is_of_owner(self, relay: PeerRecord, poll: Poll) -> bool:
        """Return whether a poll of this relay comes from the owner of its key."""
        return is_signed(poll.key, self._poll(relay, poll), poll.signature)

    def _call(self, call: RelayedCall) -> bytes:
        return self._statement("call", msgspec.structs.replace(call, body=_digest(call.body), signature=b""))

    def _reply(self, call: RelayedCall, reply: RelayedReply) -> bytes:
        plain = msgspec.structs.replace(reply, body=_digest(reply.body), signature=b"")
        return self._statement("reply", _digest(self._call(call)), plain)

    def _poll(self, relay: PeerRecord, poll: Poll) -> bytes:
        return self._statement("poll", relay.name, relay.life, msgspec.structs.replace(poll, signature=b""))

    def _statement(self, kind: str, *said: object) -> bytes:
        return msgspec.msgpack.encode((f"paceline gossip relay {kind}", self._job, *said))

    def _sign(self, statement: bytes) -> bytes:
        assert self._key is not None
        return self._key.sign(statement)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
