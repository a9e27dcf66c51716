"""What a worker sends in structured form besides results: a description of itself, and failures."""

from __future__ import annotations

import msgspec

from paceline.axon.signatures import Published


class WorkerDescription(msgspec.Struct):
    """The answer to ``GET /``."""

    device: str
    paceline: str
    wire_version: int
    rpcs: list[Published]


class RemoteFailure(msgspec.Struct):
    """Content of an error frame: the exception that the function raised."""

    type: str
    message: str
    device: str
    traceback: str = ""
