"""What a worker tells in structured form besides results: its functions, and failures."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec

from paceline.axon.signatures import Published


class Listing(msgspec.Struct):
    """The answer to ``GET /``."""

    device: str
    paceline: str
    wire_version: int
    rpcs: list[Published]


class RemoteFailure(msgspec.Struct):
    """What an error frame holds: the exception that the function raised."""

    type: str
    message: str
    device: str
    traceback: str = ""


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there is {', '.join(sorted(known)) or 'none'}"
