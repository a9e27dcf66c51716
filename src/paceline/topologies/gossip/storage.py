"""Where a peer keeps how far it is, on its own disk: a snapshot after each epoch, and a journal of its mass since.

The snapshot before the last stays, and the journals since: with them, no mass is lost where the last is damaged.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch

from paceline import files
from paceline.errors import ConfigError, PacelineError
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.topologies.gossip.mass import MassEntry
from paceline.topologies.recovery import newest_whole

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MassEntry)

_JOURNAL = "journal"  # name of the tensor that says which journal goes on from a snapshot


class Kept(NamedTuple):
    """What a peer goes on from.

    Attributes:
        first: number of the first journal of what came after it.
        damage: what is wrong with the newest snapshot, if this is the one before.
    """

    state: State
    first: int
    damage: str | None = None


class PeerStorage:
    """The files of one peer: ``PATH`` for the snapshot, and ``PATH.N.journal`` for what came after the N-th.

    A snapshot names the journal that goes on from it. A new journal is begun first, so that at any moment the newest
    snapshot that is whole, and all journals from its own on, are what the peer goes on from. ``PATH.before`` is the
    snapshot before the newest.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = path.with_name(f"{path.name}.before")
        self._coming = path.with_name(f"{path.name}.coming")
        self._first: int | None = None  # journal of the newest snapshot; None if there is none, or it was not read
        self._number = max((number for number, _ in self._journals()), default=0)
        self._file: int | None = None

    def load(self) -> Kept | None:
        """Read what was kept; None if nothing was. Raises `ConfigError` if no snapshot is whole."""
        snapshots = (self._before, self._path)
        if not any(path.exists() for path in snapshots):
            return None
        found = newest_whole(range(len(snapshots)), lambda number: checkpoints.read(snapshots[number]), "snapshot")
        assert found is not None
        state = found.content
        self._first = int(state.pop(_JOURNAL)) if _JOURNAL in state else 0
        if found.damage:
            with self._translated():
                files.disk().rename(self._before, self._path)  # or the next one would take the place of what is whole
        return Kept(state, self._first, next(iter(found.damage.values()), None))

    def entries(self, first: int) -> list[MassEntry]:
        """Read what became of the mass from a journal on; raises `ConfigError` if any of it is damaged or missing."""
        journals = [(number, path) for number, path in self._journals() if number >= first]
        if [number for number, _ in journals] != list(range(first, first + len(journals))) or not journals:
            raise ConfigError(f"{self._path}: a journal of it is missing, {self._remedy}")
        return [entry for _, path in journals for entry in self._entries_in(path)]

    def _entries_in(self, path: Path) -> Iterator[MassEntry]:
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):  # one that was cut was never acted upon
            checksum, _, text = line.partition(b" ")
            try:
                if checksum != _checksum(text):
                    raise ValueError("its checksum is another")
                yield _decoder.decode(text)
            except ValueError as error:
                raise ConfigError(f"{path}, line {number} is damaged ({error}), {self._remedy}") from error

    @property
    def _remedy(self) -> str:
        return f"so what mass the peer has is not known; delete {self._path.name}* to have it join as a newcomer"

    def append(self, entry: MassEntry) -> None:
        """Note a change of the mass; it survives the process from here on, and a power cut from `sync` on."""
        if self._file is None:
            self.begin_journal()
        assert self._file is not None
        text = _encoder.encode(entry)
        line = _checksum(text) + b" " + text + b"\n"
        with self._translated():
            if os.write(self._file, line) != len(line):
                raise OSError("no space is left")

    def sync(self) -> None:
        """Wait until all that was noted is on the disk. One that fails at this fails at the next snapshot, too."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file)

    def begin_journal(self) -> int:
        """Begin the journal of what comes after the snapshot that is taken now; returns its number."""
        self.close()
        self._number += 1
        path = self._path.with_name(f"{self._path.name}.{self._number}.journal")
        with self._translated():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._number

    def save(self, state: State, number: int) -> None:
        """Write a snapshot, which this journal goes on from; what is older than the one before is no longer needed."""
        checkpoints.write(self._coming, {**state, _JOURNAL: torch.tensor(number)})
        with self._translated():
            if self._first is not None:
                files.disk().rename(self._path, self._before)
            files.disk().rename(self._coming, self._path)
            files.disk().sync(self._path.parent)
            needed, self._first = number if self._first is None else self._first, number
            for old, path in self._journals():
                if old < needed:
                    files.disk().remove(path)

    def discard(self) -> None:
        """Delete all that was kept: the run is over."""
        self.close()
        for path in (self._path, self._before, self._coming, *(path for _, path in self._journals())):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the journal."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PacelineError(f"{self._path}: what this peer needs to go on cannot be kept: {error}") from error

    def _journals(self) -> list[tuple[int, Path]]:
        name = re.compile(re.escape(self._path.name) + r"\.(\d+)\.journal")
        found = [(name.fullmatch(path.name), path) for path in self._path.parent.glob("*.journal")]
        return sorted((int(match[1]), path) for match, path in found if match)


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
