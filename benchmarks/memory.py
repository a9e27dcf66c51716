"""Peak memory of processes, by the kernel's own high-water mark (Linux)."""

from __future__ import annotations

from pathlib import Path


def can_measure_peaks() -> bool:
    """Whether this kernel keeps a peak that can be reset."""
    return Path("/proc/self/clear_refs").exists()


def reset_peak(pid: int) -> int:
    """Set the peak of a process back to its resident size now; that size in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # see proc(5)
    return peak_bytes(pid)


def peak_bytes(pid: int) -> int:
    """The largest resident size of a process, in bytes, since the last reset."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmHWM")
