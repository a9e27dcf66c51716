"""The worker that `tests.axon.fuzz` shoots at: one rpc of each sort, in a process of its own.

    python -m tests.axon.fuzz_worker MARKER TOKEN LOOP

prints its port and serves until SIGTERM. MARKER is a file that appears if anything was executed that should not be.
LOOP is "asyncio" for Python's own event loop, as on machines without uvloop.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paceline.axon import Limits, Worker

MAX_BODY_BYTES = 32 << 20
_MAX_ITEMS = 20

marker = Path("unset")

_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset),
    *(datetime.datetime, datetime.date, datetime.timedelta, np.ndarray, torch.Tensor),
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)
    colour: Colour = Colour.RED


class Box:
    """A service; what begins with an underscore is not offered."""

    def put(self, item: bytes) -> int:
        return len(item)

    def _write_marker(self, *_: Any) -> None:
        write_marker("a private method was called")


def write_marker(reason: str = "code was executed") -> None:
    """Not offered: only a decoder that runs code could get here."""
    marker.write_text(reason)


class Functions:
    """One of each sort."""

    def echo(self, value: Any = None) -> Any:
        return value

    async def receive(self, value: Any = None) -> str:
        """Look at all of a value; anything in it that is not plain data was made by running code."""
        pending = [value]
        while pending:
            item = pending.pop()
            if type(item) not in _PLAIN and not isinstance(item, np.generic):
                write_marker(f"a {type(item)} arrived")
            if isinstance(item, dict):
                pending += [*item, *item.values()]
            elif isinstance(item, (list, tuple, set, frozenset)):
                pending += item
        return type(value).__name__

    async def double(self, number: int) -> int:
        return 2 * number

    def norm(self, tensor: torch.Tensor) -> float:
        return float(tensor.float().norm())

    def total(self, array: np.ndarray, scale: float = 1.0) -> Any:
        return array.sum() * scale

    def paint(self, point: Point, colour: Colour = Colour.BLUE) -> Point:
        return dataclasses.replace(point, colour=colour)

    def collect(self, *args: int, **kwargs: float) -> list[Any]:
        return [*args, kwargs]

    def configure(self, settings: dict[str, int]) -> int:
        return len(settings)

    def countdown(self, start: int) -> Iterator[int]:
        yield from range(min(start, _MAX_ITEMS), 0, -1)

    async def ticks(self, items: list[Any]) -> AsyncIterator[Any]:
        for item in items[:_MAX_ITEMS]:
            yield item

    def fail(self, message: str) -> None:
        raise ValueError(message)

    def find(self, name: bytes) -> None:
        raise FileNotFoundError(os.fsdecode(name))  # whose text may be none that UTF-8 can hold


def make_worker() -> Worker:
    worker = Worker("fuzzed", limits=Limits(max_body_bytes=MAX_BODY_BYTES))
    worker.service(Functions())
    worker.rpc(name="echo_on_loop", executor="loop")(Functions().echo)
    worker.service(Box(), name="box")
    return worker


if __name__ == "__main__":
    marker = Path(sys.argv[1])
    if sys.argv[3] == "asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # importing it now fails
    make_worker().run(port=0, token=sys.argv[2], announce=lambda address: print(address.port, flush=True))
