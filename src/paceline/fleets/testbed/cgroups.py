"""Shares of the processor, by the kernel's cgroups, version 1 or 2.

A group may run for a quota in each period. A share of a quarter is 5 of every 20 milliseconds of one core.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.errors import ConfigError, PacelineError
from paceline.fleets.testbed import tools

_PERIOD_MICROSECONDS = 20_000  # short, so that a slow device is slow throughout rather than fast, then halted
_LEAST_QUOTA_MICROSECONDS = 1_000  # the kernel's


@dataclass(frozen=True)
class Hierarchy:
    """A mounted tree of cgroups that can limit the processor.

    Attributes:
        root: where it is mounted.
    """

    root: Path
    version: Literal[1, 2]

    def make(self, names: Sequence[str]) -> None:
        """Make groups without processes and without a limit; raises `OSError` where that is not allowed."""
        if self.version == 2 and "cpu" not in (self.root / "cgroup.subtree_control").read_text().split():
            (self.root / "cgroup.subtree_control").write_text("+cpu")
        for name in names:
            (self.root / name).mkdir(exist_ok=True)

    def limit(self, name: str, share: float) -> None:
        """Give a group's processes at most this share of one core; above 1, of several."""
        period = max(_PERIOD_MICROSECONDS, round(_LEAST_QUOTA_MICROSECONDS / share))
        quota = round(share * period)
        if self.version == 2:
            self._write(name, "cpu.max", f"{quota} {period}")
        else:
            self._write(name, "cpu.cfs_period_us", str(period))
            self._write(name, "cpu.cfs_quota_us", str(quota))

    def adopt(self, name: str, process_id: int) -> None:
        """Put a process into a group, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._write(name, "cgroup.procs", str(process_id))

    def _write(self, name: str, file: str, text: str) -> None:
        path = self.root / name / file
        try:
            path.write_text(text)
        except ProcessLookupError:
            raise
        except OSError as error:
            raise PacelineError(f"{text} cannot be written to {path}: {error.strerror}") from error


def prepare(names: Sequence[str], private: Path) -> Hierarchy:
    """The tree that can limit the processor, with groups of these names; raises `ConfigError` if there is none.

    Args:
        private: a folder to mount one in where none is mounted, or only read-only.
    """
    for hierarchy in _mounted():
        with contextlib.suppress(OSError):
            hierarchy.make(names)
            return hierarchy
    for hierarchy, options in ((Hierarchy(private, 1), ("-o", "cpu")), (Hierarchy(private, 2), ())):
        with contextlib.suppress(OSError, PacelineError):
            unmount(private)
            private.mkdir(parents=True)
            tools.run(
                "mount", "-t", "cgroup2" if hierarchy.version == 2 else "cgroup", *options, "paceline", str(private)
            )
            hierarchy.make(names)
            return hierarchy
    raise ConfigError("a testbed needs cgroups with the cpu controller, and none can be made here: is it a container?")


def members(prefix: str) -> set[int]:
    """The processes in the groups whose names begin so."""
    return {int(text) for group in _groups(prefix) for text in (group / "cgroup.procs").read_text().split()}


def remove(prefix: str) -> None:
    """Remove the groups whose names begin so; they must be empty. Raises `PacelineError` if one stays."""
    reason = ""
    for group in _groups(prefix):  # a tree that is mounted twice has each group twice
        try:
            group.rmdir()
        except OSError as error:
            reason = f": {error.strerror}"
    if left := _groups(prefix):
        raise PacelineError(f"{left[0]} cannot be removed{reason}")


def unmount(private: Path) -> None:
    """Undo what `prepare` did to that folder, if anything."""
    if os.path.ismount(private):
        tools.run("umount", str(private))
    with contextlib.suppress(FileNotFoundError):
        private.rmdir()


def _groups(prefix: str) -> list[Path]:
    return sorted({group for hierarchy in _mounted() for group in hierarchy.root.glob(f"{prefix}*") if group.is_dir()})


def _mounted() -> Iterator[Hierarchy]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        root = Path(place.encode().decode("unicode_escape"))
        if kind == "cgroup" and "cpu" in options.split(","):
            yield Hierarchy(root, 1)
        if kind == "cgroup2" and "cpu" in _controllers(root):
            yield Hierarchy(root, 2)


def _controllers(root: Path) -> list[str]:
    try:
        return (root / "cgroup.controllers").read_text().split()
    except OSError:  # hidden by another mount
        return []
