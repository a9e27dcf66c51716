"""Calling functions of other devices: `connect`, on `Caller`. The thesis's six stubs are loaded when first used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.axon.stubs import (
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from paceline.axon import stubs

    return getattr(stubs, name)
