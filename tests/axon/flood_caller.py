"""An honest caller: `python -m tests.axon.flood_caller URL TOKEN [FINGERPRINT]`.

Calls until its standard input ends, now and then over a new connection. For each line that it reads, it prints as JSON
how many milliseconds its calls took since the line before, over kept and over new connections, and what failed.
"""

from __future__ import annotations

import asyncio
import json
import sys

from paceline import axon
from paceline.axon import loops
from paceline.axon.transports import HttpTransport
from paceline.errors import TransportError

_PAUSE_SECONDS = 0.005
_CALLS_PER_CONNECTION = 20


class HonestCaller:
    """Calls one function over and over, and notes how long that takes."""

    def __init__(self, url: str, token: str, fingerprint: str | None) -> None:
        self._url, self._settings = url, {"token": token or None, "fingerprint": fingerprint}
        self._kept: list[float] = []  # milliseconds of calls
        self._new: list[float] = []
        self._failures: list[str] = []

    async def call_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            remote = axon.connect(self._url, transport=HttpTransport(), timeout_seconds=30, **self._settings)
            for number in range(_CALLS_PER_CONNECTION):
                started = loop.time()
                try:
                    if await remote.double.coro(number) != 2 * number:
                        self._failures.append("a wrong result")
                except TransportError as error:
                    self._failures.append(f"{type(error).__name__}: {error}")
                (self._kept if number else self._new).append(1000 * (loop.time() - started))
                await asyncio.sleep(_PAUSE_SECONDS)

    async def report_until_the_end(self) -> None:
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps({"kept": self._kept, "new": self._new, "failures": self._failures}), flush=True)
            self._kept, self._new, self._failures = [], [], []


async def main(url: str, token: str, fingerprint: str | None = None) -> None:
    caller = HonestCaller(url, token, fingerprint)
    calling = asyncio.ensure_future(caller.call_for_ever())
    await caller.report_until_the_end()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


if __name__ == "__main__":
    loop = loops.new_event_loop()
    loop.run_until_complete(main(*sys.argv[1:]))
    loops.shut_down(loop)
