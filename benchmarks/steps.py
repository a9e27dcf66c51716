"""What a step of a split model costs: the figures that split.py has of every system, and how processes take them."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from commands import told_by

RATE = "steps_per_second"
COST = "ms_per_source_step"
"""Seconds of a step over the sources that take part in it."""
CPU = "cpu_ms_per_step"
"""Of all processes together."""
KILOBYTES = "kb_per_source_step"
"""Both ways, as TCP carries them, with all heads; on virtual time, bodies without heads. kB are 10^3 bytes."""
TENSOR_KILOBYTES = "tensor_kb_per_source_step"
"""What the values themselves take."""
VIRTUAL_SECONDS = "virtual_seconds_per_step"
LOSS = "train_loss"

_LIMIT_SECONDS = 240.0
_DESCRIPTORS = Path("/proc/self/fd")
_BYTES_AT = 120  # in Linux's struct tcp_info: tcpi_bytes_acked, then tcpi_bytes_received


class Mark(NamedTuple):
    """What a process has taken so far."""

    seconds: float
    cpu_seconds: float
    num_bytes: int

    @classmethod
    def now(cls) -> Mark:
        """At this moment."""
        return cls(time.monotonic(), time.process_time(), tcp_bytes())

    def since(self, before: Mark) -> Mark:
        """What came after."""
        return Mark(*(now - then for now, then in zip(self, before, strict=True)))


def tcp_bytes() -> int:
    """Sent and received so far over this process's TCP connections, of whatever library; 0 where the system is mute."""
    if not _DESCRIPTORS.exists():
        return 0
    total = 0
    for link in list(_DESCRIPTORS.iterdir()):
        try:
            if not os.readlink(link).startswith("socket:"):
                continue
            descriptor = os.dup(int(link.name))
        except OSError:  # closed meanwhile
            continue
        with socket.socket(fileno=descriptor) as one:
            if one.type == socket.SOCK_STREAM and one.family in (socket.AF_INET, socket.AF_INET6):
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_AT + 16)
                total += sum(struct.unpack_from("QQ", info, _BYTES_AT))
    return total


def told(trunk: Mark, sources: Sequence[Mark], loss: float) -> dict[str, float]:
    """What processes took for an epoch, as `measure` expects it to be printed."""
    return {
        "seconds": trunk.seconds,
        "cpu_seconds": trunk.cpu_seconds + sum(source.cpu_seconds for source in sources),
        "num_bytes": sum(source.num_bytes for source in sources),
        "loss": loss,
    }


def measure(module: str, setup: Mapping[str, Any]) -> dict[str, float]:
    """Run a module that starts trunk and sources and prints what they `told`; see `split_work.prepare` for setups."""
    # Many processes on few cores: one thread each, as a local fleet has it.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = (sys.executable, "-m", module, json.dumps(setup))
    figures_told = told_by("lifeline", *command, limit_seconds=_LIMIT_SECONDS, environment=environment)
    return figures(num_steps=setup["num_steps"], num_sources=setup["num_sources"], **figures_told)


def figures(
    *,
    num_steps: int,
    num_sources: int,
    seconds: float,
    cpu_seconds: float,
    num_bytes: float,
    loss: float,
    virtual_seconds: float = 0.0,
) -> dict[str, float]:
    """Of an epoch of so many steps; what is 0 was not measured, or is not there."""
    found = {
        RATE: num_steps / seconds,
        COST: seconds * 1e3 / num_steps / num_sources,
        CPU: cpu_seconds * 1e3 / num_steps,
        KILOBYTES: num_bytes / num_steps / num_sources / 1e3,
        LOSS: loss,
        VIRTUAL_SECONDS: virtual_seconds / num_steps,
    }
    return {metric: value for metric, value in found.items() if value}
