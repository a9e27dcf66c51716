"""One page that several browsers follow: its content is made once for all of them, and not at all without any."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import msgspec

from paceline.axon.messages import Body
from paceline.errors import ConfigError
from paceline.report.changes import changes
from paceline.report.content import PageContent

_QUICK_SECONDS = 0.5  # between two looks at what goes on
_WHOLE_SECONDS = 1.0  # between two contents, at least
_COST_SHARE = 5  # making contents may take this part of the time, so long as somebody looks
_KEPT_CHANGES = 16  # for browsers that come back, or are slow; one that missed more gets the whole page
_ALIVE_SECONDS = 15.0  # between two signs of life
_FAILED = "the page cannot be made of what is in the run's folder; the log of who shows it says why"

_log = logging.getLogger(__name__)


class Source(ABC):
    """Where the content of a channel comes from. Called in a thread, by one at a time."""

    @abstractmethod
    def look(self, *, is_quick: bool) -> PageContent | dict[str, Any] | None:
        """Return the content as of now, or None if it is as it was; raises `ConfigError` if there is none.

        Args:
            is_quick: whether to return only what takes no time to make.
        """


class _Version(NamedTuple):
    number: int
    event: bytes


class Channel:
    """Versions of a content, told to each browser as fast as it takes them.

    A version has an id, by which a browser that lost its connection says which one it has.

    Attributes:
        num_viewers: how many browsers follow it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._key = secrets.token_hex(4)  # another one after a restart, so that no browser takes one run for the other
        self._number = 0
        self._content: PageContent | dict[str, Any] | None = None
        self._whole: _Version | None = None
        self._changes: deque[_Version] = deque(maxlen=_KEPT_CHANGES)
        self._trouble = ""
        self._is_new = asyncio.Event()
        self.num_viewers = 0
        self._maker: asyncio.Task[None] | None = None

    async def events(self, last_id: str) -> AsyncGenerator[Body, None]:
        """Tell a browser what it has not got yet, as server-sent events, without end."""
        seen, trouble = self._number_of(last_id), ""
        self.num_viewers += 1
        if self._maker is None:
            self._maker = asyncio.create_task(self._make())
        try:
            while True:
                if self._trouble != trouble:
                    trouble = self._trouble
                    yield [_event("trouble", {"message": trouble})]
                version = self._next_after(seen)
                if version is not None:
                    seen = version.number
                    yield [version.event]
                elif not await self._wait():
                    yield [b": still here\n\n"]
        finally:
            self.num_viewers -= 1

    async def close(self) -> None:
        """Make no more contents."""
        if self._maker is not None:
            self._maker.cancel()
            await asyncio.wait((self._maker,))

    async def _wait(self) -> bool:
        """Wait for another version; returns whether there is one."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._is_new.wait(), _ALIVE_SECONDS)
            return True
        return False

    def _number_of(self, last_id: str) -> int:
        key, _, number = last_id.partition("-")
        return int(number) if key == self._key and number.isdecimal() and len(number) < 18 else -1

    def _next_after(self, seen: int) -> _Version | None:
        if seen == self._number or self._content is None:
            return None
        for version in self._changes:
            if version.number == seen + 1:
                return version
        if self._whole is None or self._whole.number != self._number:
            name = "page" if isinstance(self._content, PageContent) else "runs"
            self._whole = _Version(self._number, _event(name, self._content, f"{self._key}-{self._number}"))
        return self._whole

    async def _make(self) -> None:
        """Look at the source as long as anybody is there."""
        loop = asyncio.get_running_loop()
        whole_at = loop.time()
        while self.num_viewers:
            before = time.process_time()
            is_quick = loop.time() < whole_at
            try:
                content = await asyncio.to_thread(self._source.look, is_quick=is_quick)
                self._publish(content)
                self._tell("")
            except ConfigError as error:
                self._tell(str(error))
            except Exception as error:
                if self._trouble != _FAILED:
                    _log.error("the page could not be made; it goes on", exc_info=error)
                self._tell(_FAILED)
            seconds = time.process_time() - before
            if not is_quick:
                whole_at = loop.time() + max(_WHOLE_SECONDS, _COST_SHARE * seconds)
            await asyncio.sleep(max(_QUICK_SECONDS, _COST_SHARE * seconds if is_quick else 0.0))
        self._maker = None

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._wake()

    def _publish(self, content: PageContent | dict[str, Any] | None) -> None:
        """Make a version of a content, if it differs from the last."""
        old = self._content
        if content is None:
            return
        if isinstance(content, PageContent) and isinstance(old, PageContent):
            change = changes(old, content)
            if change is None:
                return
            self._number += 1
            event = _event("change", change, f"{self._key}-{self._number}")
            self._changes.append(_Version(self._number, event))
        elif content == old:
            return
        else:
            self._number += 1
        self._content, self._whole = content, None
        self._wake()

    def _wake(self) -> None:
        self._is_new.set()
        self._is_new = asyncio.Event()


def _event(name: str, data: object, identity: str = "") -> bytes:
    """Write a server-sent event; JSON has no line breaks."""
    head = f"id: {identity}\n" if identity else ""
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
