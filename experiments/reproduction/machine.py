"""Describes what results were made with and on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from paceline.report.versions import read_versions

_PACKAGES = ("matplotlib", "numpy", "scipy")
_CPU_INFO = Path("/proc/cpuinfo")


def describe_machine() -> dict[str, Any]:
    """Record date, processor, cores, platform, and the versions of what computes; not the name of the host."""
    versions = read_versions({})
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_model(),
        "num_cores": os.cpu_count(),
        "platform": versions["platform"],
        "versions": {
            **{name: versions[name] for name in ("paceline", "commit", "python", "torch")},
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }


def cpu_model() -> str:
    """Return the processor's name, as far as the system knows it."""
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
