"""What a node of a split job spends: time, work, traffic, energy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from paceline.devices.energy import Meter
from paceline.learning.engines import Engine
from paceline.topologies.split.events import NodeSpent


class Spending:
    """Counts what a node spends from now on.

    Args:
        traffic: returns the bytes sent and received so far.

    Attributes:
        started: the loop's time at the beginning.
    """

    def __init__(self, engine: Engine, meter: Meter, traffic: Callable[[], tuple[int, int]]) -> None:
        meter.read()  # what came before does not count
        self.started = asyncio.get_running_loop().time()
        self._engine, self._busy = engine, engine.busy_seconds
        self._meter = meter
        self._traffic, self._before = traffic, traffic()

    def until_now(self, at: float, learner: str, epoch: int) -> NodeSpent:
        """Return what was spent, as an event."""
        seconds = asyncio.get_running_loop().time() - self.started
        compute = self._engine.busy_seconds - self._busy
        sent, received = (after - before for after, before in zip(self._traffic(), self._before, strict=True))
        used = self._meter.read(sent + received)
        return NodeSpent(
            at=at,
            learner=learner,
            epoch=epoch,
            seconds=seconds,
            compute_seconds=compute,
            wait_seconds=max(0.0, seconds - compute),
            bytes_sent=sent,
            bytes_received=received,
            cpu_seconds=used.cpu_seconds,
            joules=used.joules,
        )
