"""Calling functions of other devices: the thesis's stubs, `connect`, handles and fan-out, all faces of `Caller`."""

from paceline.axon.client.stubs import (
    AsyncDuplexStub,
    AsyncSimplexStub,
    CoroDuplexStub,
    CoroSimplexStub,
    SyncDuplexStub,
    SyncSimplexStub,
)

__all__ = [
    "AsyncDuplexStub",
    "AsyncSimplexStub",
    "CoroDuplexStub",
    "CoroSimplexStub",
    "SyncDuplexStub",
    "SyncSimplexStub",
]
