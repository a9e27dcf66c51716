"""How much of the CPUs others took during a measurement: what its figures are worth."""

from __future__ import annotations

import os
from dataclasses import dataclass
from time import monotonic

import psutil


@dataclass(frozen=True)
class CpuSeconds:
    """CPU seconds since some start: of the clock times cores, of all processes, ours, and taken by the hypervisor.

    Interrupts are left out: on loopback they are the measured traffic, yet belong to no process.
    """

    available: float
    used: float
    own: float
    stolen: float

    @classmethod
    def now(cls) -> CpuSeconds:
        """Read the clocks. Own are this process and the ended processes that it or they started."""
        times, own = psutil.cpu_times(), os.times()
        return cls(
            monotonic() * (os.cpu_count() or 1),
            times.user + times.system + getattr(times, "nice", 0.0),
            own.user + own.system + own.children_user + own.children_system,
            getattr(times, "steal", 0.0),
        )

    def share_of_others_since(self, start: CpuSeconds) -> float:
        """What others and the hypervisor took, as a share (0 to 1) of all there was."""
        others = (self.used - start.used) - (self.own - start.own) + (self.stolen - start.stolen)
        return min(1.0, max(0.0, others / (self.available - start.available)))
