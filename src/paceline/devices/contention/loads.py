"""Loads that keep a device busy to measure how much slower it trains, in processes that are sure to end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.errors import PacelineError

_PROGRAM = Path(__file__).with_name("load_process.py")
_MB = 1e6


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Load on a device; the rates are targets.

    Attributes:
        num_processes: number of computing processes.
        duty_ratio: share of the time in which each of them computes.
        disk_bytes_per_second: rate written and flushed.
        network_bytes_per_second: rate sent through the loopback interface.
    """

    num_processes: int = 0
    duty_ratio: float = 1.0
    disk_bytes_per_second: float = 0.0
    network_bytes_per_second: float = 0.0

    @property
    def name(self) -> str:
        """Label for people."""
        parts = []
        if self.num_processes:
            parts.append(f"cpu {self.num_processes} × {self.duty_ratio:.0%}")
        if self.disk_bytes_per_second:
            parts.append(f"disk {self.disk_bytes_per_second / _MB:g} MB/s")
        if self.network_bytes_per_second:
            parts.append(f"network {self.network_bytes_per_second / _MB:g} MB/s")
        return " + ".join(parts) or "none"

    def _processes(self) -> list[tuple[str, float]]:
        """Return the arguments of each process: kind and intensity."""
        rates = {"disk": self.disk_bytes_per_second, "network": self.network_bytes_per_second}
        return [("cpu", self.duty_ratio)] * self.num_processes + [(kind, rate) for kind, rate in rates.items() if rate]


IDLE = Load()


def loads_for(num_cores: int) -> tuple[Load, ...]:
    """List loads of every kind, from none to more than a device of so many cores has, alone and combined."""
    some, many = max(1, num_cores // 2), 2 * num_cores
    found = (
        IDLE,
        *(Load(num_processes=some, duty_ratio=ratio) for ratio in (0.3, 0.6, 1.0)),
        *(Load(num_processes=num_cores, duty_ratio=ratio) for ratio in (0.3, 0.6, 0.8, 1.0)),
        *(Load(num_processes=count) for count in (num_cores + 1, many)),
        *(Load(disk_bytes_per_second=rate * _MB) for rate in (10, 50, 250)),
        *(Load(network_bytes_per_second=rate * _MB) for rate in (25, 100, 500)),
        Load(num_processes=some, duty_ratio=0.5, disk_bytes_per_second=50 * _MB),
        Load(num_processes=num_cores, duty_ratio=0.8, disk_bytes_per_second=100 * _MB),
        Load(num_processes=some, duty_ratio=0.5, network_bytes_per_second=100 * _MB),
        Load(num_processes=some, duty_ratio=0.5, disk_bytes_per_second=20 * _MB, network_bytes_per_second=50 * _MB),
    )
    return tuple(dict.fromkeys(found))


@contextlib.contextmanager
def running(load: Load) -> Iterator[None]:
    """Keep this device busy while the block runs; raises `PacelineError` if a process does not begin."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_started(kind, intensity)) for kind, intensity in load._processes()]
        for process in processes:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise PacelineError(f"the load {load.name} could not be started: it ended with {process.wait()}")
        yield


@contextlib.contextmanager
def _started(kind: str, intensity: float) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-I", str(_PROGRAM), kind, str(intensity)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
