"""Request and reply: what passes between the two ends of a transport, whatever carries it."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Body: TypeAlias = "Sequence[Buffer]"
"""A body as buffers to be sent one after the other. A receiver gets exactly one, contiguous and its own."""

AXON_TYPE = "application/x-axon"
JSON_TYPE = "application/json"


T = TypeVar("T")


class ItemStream(Generic[T]):
    """Items as they come, for ``async for``, and a way to stop them, which also works before the first was asked for.

    `close` is called once when the stream is closed, besides closing `items`.
    """

    def __init__(self, items: AsyncGenerator[T, None], close: Callable[[], Awaitable[object]] | None = None) -> None:
        self._items = items
        self._close = close

    def __aiter__(self) -> ItemStream[T]:
        return self

    async def __anext__(self) -> T:
        return await anext(self._items)

    async def aclose(self) -> None:
        """Stop; what makes the items ends too."""
        await self._items.aclose()
        close, self._close = self._close, None
        if close is not None:
            await close()


Stream: TypeAlias = ItemStream[Body]
"""The bodies of a reply that is sent piece by piece."""


@dataclass(slots=True)
class Request:
    """What a client asks. Header names are lower-case; `peer` is the sender's host as the receiver sees it."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = ()
    peer: str = ""

    @property
    def content(self) -> memoryview:
        """Body as received."""
        return memoryview(self.body[0]) if self.body else memoryview(b"")


@dataclass(slots=True)
class Reply:
    """What a handler answers: one body, or a stream of bodies when `stream` is set."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = ()
    stream: Stream | None = None

    @property
    def content(self) -> memoryview:
        """Body as received."""
        return memoryview(self.body[0]) if self.body else memoryview(b"")

    @classmethod
    def json(cls, value: object, status: int = 200) -> Reply:
        """Make a reply for people and other languages."""
        return cls(status, {"content-type": JSON_TYPE}, [_as_json(value)])

    @classmethod
    def refusal(cls, status: int, message: str, retry_after_seconds: int | None = None) -> Reply:
        """Make a reply that says no, and why, at no great length: the message may quote what was sent."""
        shown = message if len(message) <= 1000 else f"{message[:1000]} …"
        reply = cls(status, {"content-type": JSON_TYPE}, [_refusal_body(shown)])
        if retry_after_seconds is not None:
            reply.headers = {**reply.headers, "retry-after": str(retry_after_seconds)}
        return reply


def _as_json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


@functools.lru_cache(maxsize=64)
def _refusal_body(message: str) -> bytes:
    """Return the body of a refusal: in a flood of requests, most are refused for the same reason."""
    return _as_json({"error": message})


def num_bytes(body: Body) -> int:
    """Length of a body in bytes."""
    return sum([part.nbytes if isinstance(part, memoryview) else len(part) for part in body])
