"""What a worker tells in structured form besides results: its functions, and failures."""

from __future__ import annotations

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
