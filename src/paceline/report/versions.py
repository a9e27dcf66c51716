"""What a run was made with: the code, the machine and the seed."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import paceline


def read_versions(settings: dict[str, Any]) -> dict[str, Any]:
    """Read what a run of this job is made with: Paceline and its commit, if any, Python, PyTorch, machine and seed."""
    seeds = [table["seed"] for table in settings.values() if isinstance(table, dict) and "seed" in table]
    return {
        "paceline": paceline.__version__,
        "commit": _commit_of(Path(paceline.__file__).parent),
        "python": platform.python_version(),
        "torch": _installed("torch"),
        "platform": platform.platform(),
        "host": platform.node(),
        "seed": seeds[0] if seeds else None,
    }


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit_of(package: Path) -> str | None:
    """Find the commit of these files, with ``-dirty`` if they differ from it."""
    # A package installed below somebody else's checkout is not of that checkout: its files are not tracked there.
    if _git(package, "ls-files", "__init__.py") is None:
        return None
    return _git(package, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
