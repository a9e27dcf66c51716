"""Events: small typed records of what happens in a run, the one thing that recorders, live tables and reports read.

Times are seconds. `at` counts from the start of the run on the clock that the run uses, real or virtual; after a
resume it goes on from the last recorded event. In the record of a host, it is the host's clock. Each topology defines
its own events beside its roles; a subclass of `Event` is registered by being defined.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

Phase: TypeAlias = Literal[
    "benchmark", "download", "train", "upload", "idle", "aggregate", "rank", "exchange", "forward", "backward"
]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """Base of all events."""

    at: float

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        _decoder.cache_clear()


Emit: TypeAlias = Callable[[Event], None]
"""A receiver of events; must return at once, and must not raise."""

_encoder = msgspec.json.Encoder()


def _defined(base: type[Event]) -> tuple[type[Event], ...]:
    """Return the events that are defined by now: what nothing else is derived from."""
    derived = base.__subclasses__()
    return tuple(event for one in derived for event in _defined(one)) if derived else (base,)


@functools.cache
def _decoder() -> Any:
    return msgspec.json.Decoder(functools.reduce(operator.or_, _defined(Event)))


def to_line(event: Event) -> bytes:
    """Encode an event as one line of JSON, newline included."""
    return _encoder.encode(event) + b"\n"


def from_line(line: bytes) -> Event:
    """Decode a line of JSON; raises `msgspec.ValidationError` or `msgspec.DecodeError` for what is no event."""
    event: Event = _decoder().decode(line)
    return event
