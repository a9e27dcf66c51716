"""What other processes use of this device, from counters of the system and of the own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec
import psutil

from paceline.checks import NotNegative, Ratio, check_fields


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What others use of a device, on average over some time. Raises `ValueError` for what cannot be.

    Attributes:
        cpu_ratio: of all cores together, from 0 to 1; what a hypervisor gives to other machines counts.
        network_bytes_per_second: sent and received.
        disk_bytes_per_second: read and written.
    """

    cpu_ratio: Ratio = 0.0
    network_bytes_per_second: NotNegative = 0.0
    disk_bytes_per_second: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


class Counters(NamedTuple):
    """What has been used since some moment in the past, by others where they can be told apart.

    Attributes:
        at_seconds: when it was read, by a clock that never goes back.
        core_seconds: that all cores have had so far, busy or not.
        busy_seconds: of those, that others were busy.
        network_bytes: sent and received, by everybody.
        disk_bytes: read and written by others.
    """

    at_seconds: float
    core_seconds: float
    busy_seconds: float
    network_bytes: float
    disk_bytes: float


Reader: TypeAlias = Callable[[], Counters]
"""Reads the counters as they are now."""


def usage_between(earlier: Counters, later: Counters) -> Usage:
    """The mean usage from one reading to another; none, if no time has passed.

    Counters of different clocks are compared, so others may seem to have used less than nothing, or more than there is:
    that is cut off.
    """
    seconds, core_seconds = later.at_seconds - earlier.at_seconds, later.core_seconds - earlier.core_seconds
    if seconds <= 0 or core_seconds <= 0:
        return Usage()
    return Usage(
        cpu_ratio=min(max((later.busy_seconds - earlier.busy_seconds) / core_seconds, 0.0), 1.0),
        network_bytes_per_second=max((later.network_bytes - earlier.network_bytes) / seconds, 0.0),
        disk_bytes_per_second=max((later.disk_bytes - earlier.disk_bytes) / seconds, 0.0),
    )


class SystemReader:
    """Reads the counters of this machine through psutil, and takes off what this process used.

    Of the processor, what this process and its children use is taken off exactly. Of the disk, what they caused to be
    read and written is taken off; the system counts a write when it reaches the disk, which may be half a minute after
    the process has written, so that short times tell little. The network cannot be told apart: no counter says which
    process sent a byte, so this process's own traffic counts as that of others. Traffic within the machine counts, too.

    Args:
        with_children: whether child processes are of this one's work, as executors are. If not, they count as others,
            as do processes that stress the device in order to measure it.
    """

    def __init__(self, *, with_children: bool = True) -> None:
        self._process = psutil.Process()
        self._with_children = with_children

    def __call__(self) -> Counters:
        """The counters as they are now."""
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
    except (psutil.Error, AttributeError):  # it ended meanwhile; or this system does not tell
        return 0
    return int(counters.read_bytes + counters.write_bytes)
