"""Proofs that a device has its key: it signs what a host asks it to, once, and for that host only."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from paceline.axon.keys import DeviceKey, is_signed

_VALID_SECONDS = 60.0
_MAX_CHALLENGE = 200
_FEW = 1024  # challenges that were used, which are not worth a look for old ones

HTTP, HTTPS = "http", "https"
"""How a device reaches a host: without TLS, or with a certificate that an authority has signed."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """A device's public key, and its signature under the host's challenge and the name that it joins under."""

    key: Annotated[str, Meta(max_length=100)]
    challenge: Annotated[str, Meta(max_length=_MAX_CHALLENGE)]
    signature: Annotated[bytes, Meta(max_length=64)]


def prove(key: DeviceKey, channel: str, challenge: str, name: str) -> Proof:
    """Sign a host's challenge.

    Args:
        channel: fingerprint of the host's certificate, if the device pins it; else `HTTPS` or `HTTP`. A host that
            passes the proof on to another one does not get in there: the channel differs.
    """
    challenge = challenge[:_MAX_CHALLENGE]
    return Proof(key=key.public, challenge=challenge, signature=key.sign(_statement(channel, challenge, name)))


def is_proven(proof: Proof, channels: Iterable[str], name: str) -> bool:
    """Return whether a proof is of its key, for this name, over one of these channels."""
    return any(is_signed(proof.key, _statement(one, proof.challenge, name), proof.signature) for one in channels)


def _statement(channel: str, challenge: str, name: str) -> bytes:
    return msgspec.json.encode(["paceline join", channel, challenge, name])


class Challenges:
    """Challenges of one host. It keeps no record of those it hands out, only of those that were used, for a minute."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._used: dict[str, float] = {}
        self._most_used = _FEW  # before old ones are looked for

    def make(self) -> str:
        """Return a new challenge."""
        text = f"{secrets.token_hex(16)}-{self._now() + _VALID_SECONDS:.3f}"
        return f"{text}-{self._digest(text)}"

    def use_up(self, challenge: str) -> None:
        """Accept a challenge of this host; raises `LookupError` if it is none, too old, or was used before."""
        now, (text, _, digest) = self._now(), challenge.rpartition("-")
        is_ours = hmac.compare_digest(digest.encode(), self._digest(text).encode())
        until = float(text.rpartition("-")[2]) if is_ours else 0.0
        if len(self._used) >= self._most_used:
            self._used = {one: end for one, end in self._used.items() if end > now}
            self._most_used = max(_FEW, 2 * len(self._used))
        if until <= now or challenge in self._used:
            raise LookupError("this challenge is not known here any more; join again")
        self._used[challenge] = until

    def _digest(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()
