"""Disks that fail: full for a while, broken, cut off in mid-write, or without what was not synced when power was lost.

Put one in place by `paceline.files.written_to(disk)`. It writes real files, so what a crash leaves can be looked at.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from paceline.files import Content, Disk

Kind: TypeAlias = Literal["fill", "append", "cut", "sync", "rename", "remove", "make_folder"]


class Change(NamedTuple):
    """What is about to be done to a disk.

    Attributes:
        number: counts all changes from 1.
        path: the file or folder; for `rename`, the name that it gets.
    """

    number: int
    kind: Kind
    path: Path


class Crash(BaseException):
    """The process ended: from here on it writes nothing."""


Fault: TypeAlias = int | type[Crash]
"""What goes wrong with a change: an error number such as `errno.ENOSPC`, or the end of the process.

A part of what was to be written is, in either case.
"""


class FaultyDisk(Disk):
    """A disk on which chosen changes fail.

    Args:
        faults: decides about each change: a fault, or None if it succeeds; or error numbers by kind, for good.
        rng: draws how much of a write is done before it fails, and what survives a loss of power.

    Attributes:
        changes: all that were asked for, also those that failed.
    """

    def __init__(
        self,
        faults: Callable[[Change], Fault | None] | Mapping[Kind, int] = lambda change: None,
        rng: random.Random | None = None,
    ) -> None:
        self._faults = faults if callable(faults) else lambda change: faults.get(change.kind)
        self._rng = rng or random.Random(0)
        self._has_crashed = False
        self._safe = _Safe()
        self.changes: list[Change] = []

    def lose_power(self) -> None:
        """Leave on the disk what was synced, and of all later changes those that happened to arrive."""
        self._safe.restore(self._rng)

    def _fault(self, kind: Kind, path: Path) -> Fault | None:
        if self._has_crashed:
            raise Crash
        if kind != "make_folder":
            self._safe.note(path)
        self.changes.append(Change(len(self.changes) + 1, kind, path))
        return self._faults(self.changes[-1])

    def _fail(self, fault: Fault, path: Path) -> None:
        if isinstance(fault, int):
            raise OSError(fault, os.strerror(fault), str(path))
        self._has_crashed = True
        raise fault

    def fill(self, path: Path, content: Content) -> None:
        fault = self._fault("fill", path)
        self._safe.create(path)
        super().fill(path, content)
        if fault is not None:
            os.truncate(path, self._rng.randint(0, path.stat().st_size))
            self._fail(fault, path)

    def append(self, path: Path, file: int, content: bytes | memoryview) -> int:
        fault = self._fault("append", path)
        if fault is None:
            return super().append(path, file, content)
        written = super().append(path, file, content[: self._rng.randrange(len(content))])
        if self._rng.random() < 0.5 and isinstance(fault, int):
            return written  # a system may do as much as it can, and raise only the next time
        self._fail(fault, path)
        return written

    def cut(self, path: Path, file: int, size: int) -> None:
        if (fault := self._fault("cut", path)) is not None:
            self._fail(fault, path)
        super().cut(path, file, size)

    def sync(self, path: Path) -> None:
        if (fault := self._fault("sync", path)) is not None:
            self._fail(fault, path)
        self._safe.sync(path)

    def rename(self, old: Path, new: Path) -> None:
        if (fault := self._fault("rename", new)) is not None:
            self._fail(fault, new)
        super().rename(old, new)
        self._safe.rename(old, new)

    def remove(self, path: Path) -> None:
        if (fault := self._fault("remove", path)) is not None:
            self._fail(fault, path)
        super().remove(path)
        self._safe.remove(path)

    def make_folder(self, path: Path) -> None:
        if (fault := self._fault("make_folder", path)) is not None:
            self._fail(fault, path)
        super().make_folder(path)


class _Safe:
    """What a disk is sure to have: of each name the file that it stands for, and of each file its content.

    Files are numbered, since a name may stand for another one after each renaming.
    """

    def __init__(self) -> None:
        self._contents: list[bytes] = []
        self._names: dict[Path, int | None] = {}
        self._now: dict[Path, int | None] = {}

    def note(self, path: Path) -> None:
        """Take a file that is met for the first time as synced."""
        if path not in self._now and not path.is_dir():
            self._now[path] = self._names[path] = self._add(path.read_bytes()) if path.exists() else None

    def _add(self, content: bytes) -> int:
        self._contents.append(content)
        return len(self._contents) - 1

    def create(self, path: Path) -> None:
        """Note a file that is made anew, if it is not there yet."""
        if self._now[path] is None:
            self._now[path] = self._add(b"")

    def sync(self, path: Path) -> None:
        """Note that a file's content, or the names in a folder, are on the disk."""
        if path.is_dir():
            self._names.update({name: file for name, file in self._now.items() if name.parent == path})
        elif (file := self._now[path]) is not None:
            self._contents[file] = path.read_bytes()

    def rename(self, old: Path, new: Path) -> None:
        self._now[new], self._now[old] = self._now.get(old), None

    def remove(self, path: Path) -> None:
        self._now[path] = None

    def restore(self, rng: random.Random) -> None:
        """Write what the disk has; of what was not synced, a part drawn at random."""
        latest = {file: name.read_bytes() for name, file in self._now.items() if file is not None and name.exists()}
        for name in sorted(self._now):
            file = rng.choice((self._names[name], self._now[name]))
            if file is None:
                name.unlink(missing_ok=True)
                continue
            synced, written = self._contents[file], latest.get(file, self._contents[file])
            if written.startswith(synced):
                name.write_bytes(written[: rng.randint(len(synced), len(written))])
            else:
                name.write_bytes(rng.choice((synced, written)))
