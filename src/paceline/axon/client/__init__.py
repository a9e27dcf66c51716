"""Calling functions of other devices: `connect`, on `Caller`. The thesis's six stubs are loaded when first used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.axon.stubs import AsyncDuplexStub as AsyncDuplexStub
    from paceline.axon.stubs import AsyncSimplexStub as AsyncSimplexStub
    from paceline.axon.stubs import CoroDuplexStub as CoroDuplexStub
    from paceline.axon.stubs import CoroSimplexStub as CoroSimplexStub
    from paceline.axon.stubs import SyncDuplexStub as SyncDuplexStub
    from paceline.axon.stubs import SyncSimplexStub as SyncSimplexStub


def __getattr__(name: str) -> Any:
    if not name.endswith("Stub"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from paceline.axon import stubs

    return getattr(stubs, name)
