"""Other processes' use of this device, from counters of the system and of this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec
import psutil

from paceline.checks import NotNegative, Ratio, check_fields


class ForeignUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mean use of a device by others; `ValueError` for a value out of range.

    Attributes:
        cpu_ratio: share of all cores together; what a hypervisor gives to other machines counts.
        network_bytes_per_second: rate sent and received.
        disk_bytes_per_second: rate read and written.
    """

    cpu_ratio: Ratio = 0.0
    network_bytes_per_second: NotNegative = 0.0
    disk_bytes_per_second: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


class Counters(NamedTuple):
    """Cumulative use of a device, by others where they can be distinguished.

    Attributes:
        at_seconds: time of the reading, by a monotonic clock.
        core_seconds: time of all cores so far, busy or not.
        busy_seconds: part of it in which others were busy.
        network_bytes: bytes sent and received by all processes.
        disk_bytes: bytes read and written by others.
    """

    at_seconds: float
    core_seconds: float
    busy_seconds: float
    network_bytes: float
    disk_bytes: float


Reader: TypeAlias = Callable[[], Counters]
"""Function that reads the current counters."""


def usage_between(earlier: Counters, later: Counters) -> ForeignUsage:
    """Return the mean usage between two readings; none if no time has passed.

    Counters of different clocks are compared, so values below 0 or above 1 may occur; they are clipped.
    """
    seconds, core_seconds = later.at_seconds - earlier.at_seconds, later.core_seconds - earlier.core_seconds
    if seconds <= 0 or core_seconds <= 0:
        return ForeignUsage()
    return ForeignUsage(
        cpu_ratio=min(max((later.busy_seconds - earlier.busy_seconds) / core_seconds, 0.0), 1.0),
        network_bytes_per_second=max((later.network_bytes - earlier.network_bytes) / seconds, 0.0),
        disk_bytes_per_second=max((later.disk_bytes - earlier.disk_bytes) / seconds, 0.0),
    )


class SystemReader:
    """Reads the counters of this machine through psutil, and subtracts this process's own use.

    Processor time of this process and its children is subtracted exactly. So are their disk reads and writes; but the
    system counts a write when it reaches the disk, possibly half a minute later, so short intervals are unreliable. No
    counter attributes network traffic to a process, so all of it counts as that of others, also within the machine.

    Args:
        with_children: whether child processes belong to this one, as executors do. If not, they count as others, as do
            processes that stress the device in order to measure it.
    """

    def __init__(self, *, with_children: bool = True) -> None:
        self._process = psutil.Process()
        self._with_children = with_children

    def __call__(self) -> Counters:
        """Read the current counters."""
        own = [self._process, *(self._process.children(recursive=True) if self._with_children else ())]
        times = psutil.cpu_times()
        # Linux counts guests within user and nice, too.
        spent = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        busy = spent - times.idle - getattr(times, "iowait", 0.0)
        network, disk = psutil.net_io_counters(), psutil.disk_io_counters()
        return Counters(
            at_seconds=time.monotonic(),
            core_seconds=spent,
            busy_seconds=busy - sum(map(self._busy_seconds, own)),
            network_bytes=network.bytes_sent + network.bytes_recv if network else 0,
            disk_bytes=(disk.read_bytes + disk.write_bytes if disk else 0) - sum(map(_disk_bytes, own)),
        )

    def _busy_seconds(self, process: psutil.Process) -> float:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it ended meanwhile
            return 0.0
        of_ended_children = times.children_user + times.children_system if self._with_children else 0.0
        return float(times.user + times.system + of_ended_children)


def _disk_bytes(process: psutil.Process) -> int:
    try:
        counters = process.io_counters()
    except (psutil.Error, AttributeError):  # it ended meanwhile; or this system has no such counters
        return 0
    return int(counters.read_bytes + counters.write_bytes)
