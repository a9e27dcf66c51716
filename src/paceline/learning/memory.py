"""Memory that training may take: how much is free, what a model needs, and a bound that a process cannot cross."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.learning.training_spec import TrainingSpec

MIN_BYTES = 512 << 20
"""Least that a process can be bounded to: PyTorch alone takes more than half of it."""

_BYTES_PER_PARAMETER = 16  # float32: value, gradient, and two averages of Adam's
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_GROUP = Path("/sys/fs/cgroup")
_GROUP_FILES = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


def parse_bytes(option: str, text: str) -> int:
    """Read a number of bytes such as ``512M`` or ``1.5G``; raises `ConfigError`."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([KMG]?)B?", text.strip().upper())
    num_bytes = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if num_bytes < MIN_BYTES:
        least = format_bytes(MIN_BYTES)
        raise ConfigError(f"{option} is {text[:40]!r}; allowed: at least {least}, written like 512M or 1.5G")
    return num_bytes


def format_bytes(num_bytes: float) -> str:
    """Write a number of bytes as `parse_bytes` reads it."""
    unit = "G" if num_bytes >= _UNITS["G"] else "M"
    return f"{num_bytes / _UNITS[unit]:.3g}{unit}"


def usual_bound() -> int:
    """Return what a device gives if its owner does not say: what this process has, and half of what is free."""
    used: int = psutil.Process().memory_info().rss
    return max(MIN_BYTES, used + free_bytes() // 2)


def free_bytes() -> int:
    """Return what is free of this machine's memory, or of what the process's control group may have."""
    free: int = psutil.virtual_memory().available
    for most, used in _GROUP_FILES:
        with contextlib.suppress(OSError, ValueError):  # no control groups, or no limit
            free = min(free, int((_GROUP / most).read_text()) - int((_GROUP / used).read_text()))
    return max(free, 0)


@contextlib.contextmanager
def bounded_process(num_bytes: int) -> Iterator[None]:
    """Let this process take no more memory than that, while the block runs; only Linux enforces it."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in (before, most, num_bytes) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))


def check_trainable(spec: TrainingSpec, max_bytes: int) -> None:
    """Raise `ConfigError` for a model that takes more memory to train, before it is made.

    Models of the user's own are made without a check: whoever runs the device allowed them.
    """
    num_bytes = _BYTES_PER_PARAMETER * (spec.num_parameters or 0)
    if num_bytes > max_bytes:
        raise ConfigError(
            f"model {spec.chosen_model.name!r} takes at least {format_bytes(num_bytes)} to train; this device gives "
            f"{format_bytes(max_bytes)} (--max-memory)"
        )
