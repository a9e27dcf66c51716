"""Runs a command of Paceline, and records how long its event loop was held: `python -m watched FILE COMMAND …`.

Whatever runs on a loop without a break holds it, and all calls wait meanwhile. A timer that is due every few
milliseconds shows for how long. Each hold is a line of JSON: when it ended, its length on the clock, and the processor
time of the loop's thread in it, which other processes on the machine do not lengthen.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

BEAT_SECONDS = 0.005
LEAST_SECONDS = 0.01  # shorter ones are not worth a line


class Holds:
    """Records how long a loop is held."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._file = path.open("a", buffering=1)
        self._loop = loop
        self._beat_at = self._busy_at = 0.0

    def beat(self) -> None:
        """Note how late this is, and come again."""
        now, busy = time.monotonic(), time.thread_time()
        late, computed = now - self._beat_at - BEAT_SECONDS, busy - self._busy_at
        if self._beat_at and max(late, computed) > LEAST_SECONDS:
            self._file.write(json.dumps({"at": time.time(), "ms": late * 1e3, "cpu_ms": computed * 1e3}) + "\n")
        self._beat_at, self._busy_at = now, busy
        self._loop.call_later(BEAT_SECONDS, self.beat)


def main() -> None:
    """Run what the arguments say."""
    from paceline.axon import loops
    from paceline.cli import main as paceline

    path, *arguments = sys.argv[1:]
    make = loops.new_event_loop

    def watched() -> asyncio.AbstractEventLoop:
        loop = make()
        loop.call_soon(Holds(Path(path), loop).beat)
        return loop

    loops.new_event_loop = watched
    paceline(arguments)


if __name__ == "__main__":
    main()
