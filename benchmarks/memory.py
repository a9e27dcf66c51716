"""Peak memory of processes, by the kernel's own high-water mark (Linux)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 0.2


def can_measure_peaks() -> bool:
    """Whether this kernel keeps a peak that can be reset."""
    return Path("/proc/self/clear_refs").exists()


def reset_peak(pid: int) -> int:
    """Set the peak of a process back to its resident size now; that size in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # see proc(5)
    return peak_bytes(pid)


def peak_bytes(pid: int) -> int:
    """The largest resident size of a process, in bytes, since the last reset."""
    return _status_bytes(pid)["VmHWM"]


def peak_bytes_of_this_process() -> int:
    """The largest resident size of this process so far, in bytes."""
    return peak_bytes(os.getpid())


class TreePeak:
    """The most memory that the processes below one, without it, had at a time, as far as samples show."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self.num_bytes = 0

    def sample(self) -> None:
        """Take the present into account.

        Files mapped by several processes, such as shared libraries, are counted once: the largest share is taken. A
        peak between samples shows if a process alone had it. Both err in favour of whoever has many processes.
        """
        private, mapped, alone = 0, 0, 0
        for process in self._root.children(recursive=True):
            with contextlib.suppress(OSError, KeyError):  # ended meanwhile
                sizes = _status_bytes(process.pid)
                private += sizes["RssAnon"] + sizes["RssShmem"]
                mapped = max(mapped, sizes["RssFile"])
                alone = max(alone, sizes["VmHWM"])
        self.num_bytes = max(self.num_bytes, private + mapped, alone)


@contextlib.contextmanager
def sampled_tree_peak(pid: int) -> Iterator[TreePeak]:
    """Sample the processes below one, five times a second, until left."""
    peak, is_over = TreePeak(pid), threading.Event()

    def sample() -> None:
        while not is_over.wait(_SAMPLE_SECONDS):
            with contextlib.suppress(psutil.NoSuchProcess):
                peak.sample()

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        is_over.set()
        thread.join()


def _status_bytes(pid: int) -> dict[str, int]:
    """The sizes in /proc/PID/status; a process that is ending has none."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}
