"""The sending side of `tests.axon.fuzz`: raw sockets, and a record of what came back."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.axon.fuzz_requests import Shot

ANSWER_SECONDS = 20.0  # a whole request is answered within this, on a busy machine too
_PATIENCE_SECONDS = 0.05  # how long to wait for an answer that may not come
_MAX_PROBLEMS = 30


@dataclass
class Result:
    """What happened; `problems` is empty if all is well."""

    seed: int
    sent: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    num_connections: int = 0
    seconds: float = 0.0
    start_rss_bytes: int = 0
    peak_rss_bytes: int = 0
    exit_status: int | None = None

    @property
    def is_hopeless(self) -> bool:
        """Whether so much is wrong that it is no use to go on."""
        return len(self.problems) > _MAX_PROBLEMS

    def summary(self) -> str:
        """For people."""
        rate = self.sent.total() / self.seconds if self.seconds else 0
        return "\n".join(
            [
                f"{self.sent.total()} requests (seed {self.seed}) over {self.num_connections} connections "
                f"in {self.seconds:.1f} s: {rate:.0f} per second",
                "sent:     " + ", ".join(f"{kind} {count}" for kind, count in self.sent.most_common()),
                "answers:  " + ", ".join(f"{status} × {count}" for status, count in sorted(self.statuses.items())),
                f"memory:   {self.start_rss_bytes >> 20} MB at the start, {self.peak_rss_bytes >> 20} MB at most",
                *(f"PROBLEM:  {problem}" for problem in self.problems),
                "the worker took no harm" if not self.problems else f"{len(self.problems)} problems",
            ]
        )


class Gunner:
    """Sends shots over one connection after the other, and keeps each for as long as the worker does."""

    def __init__(self, port: int, result: Result) -> None:
        self._port = port
        self._result = result
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def fire(self, shots: Iterator[Shot], until: float) -> None:
        """Send shots until there are no more, or no more time."""
        try:
            for shot in shots:
                await self._fire_one(shot)
                if self._loop.time() > until or self._result.is_hopeless:
                    return
        finally:
            self._drop()

    async def _fire_one(self, shot: Shot) -> None:
        num_received = 0
        try:
            if self._writer is None:
                await self._connect()
            num_received = await self._exchange(shot)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._drop()
        self._result.sent[shot.kind] += 1
        if shot.num_replies is not None and num_received < shot.num_replies:
            text = f"{num_received} answers instead of {shot.num_replies} to {shot.kind} {shot.data[:300]!r}"
            self._result.problems.append(text)
        if not shot.num_replies:
            self._drop()  # where its next request would begin is anyone's guess

    async def _exchange(self, shot: Shot) -> int:
        """Send a shot and read what comes back; the number of answers."""
        assert self._writer is not None
        seconds = _PATIENCE_SECONDS if shot.num_replies is None else ANSWER_SECONDS
        watchdog = self._loop.call_later(seconds, self._writer.transport.abort)
        num_received = 0
        try:
            self._writer.write(shot.data)
            await self._writer.drain()
            while num_received != shot.num_replies and await self._read_reply():
                num_received += 1
        finally:
            watchdog.cancel()
        return num_received

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._result.num_connections += 1
        if self._result.num_connections % 2:  # every other connection ends with a reset
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def _read_reply(self) -> bool:
        """Read one answer; False if the connection had ended."""
        if self._reader is None:
            return False
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        if status == 100:
            return await self._read_reply()
        if b"\r\ntransfer-encoding: chunked\r\n" in head:
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                await self._reader.readexactly(size + 2)
            await self._reader.readexactly(2)
        else:
            await self._reader.readexactly(int(re.search(rb"\r\ncontent-length: (\d+)\r\n", head)[1]))  # type: ignore[index]
        self._result.statuses[status] += 1
        if b"\r\nconnection: close\r\n" in head:
            self._drop()
        return True

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


@contextlib.contextmanager
def dead_ports(count: int) -> Iterator[list[int]]:
    """Ports of this machine that refuse connections: taken, so that nobody else can listen there."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for taken in sockets:
            taken.bind(("127.0.0.1", 0))
        yield [taken.getsockname()[1] for taken in sockets]
