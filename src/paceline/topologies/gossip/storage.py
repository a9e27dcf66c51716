"""Where a peer keeps how far it is, on its own disk: a snapshot after each epoch, and a journal of its mass since."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch

from paceline.errors import ConfigError, PacelineError
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.topologies.gossip.mass import MassEntry

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MassEntry)

_JOURNAL = "journal"  # name of the tensor that says which journal goes on from a snapshot


class Kept(NamedTuple):
    """What a peer goes on from: its snapshot, and what became of its mass since."""

    state: State
    entries: list[MassEntry]


class PeerStorage:
    """The files of one peer: ``PATH`` for the snapshot, and ``PATH.N.journal`` for what came after the N-th.

    A snapshot names the journal that goes on from it. A new journal is begun first, so that at any moment the newest
    snapshot that is whole, and all journals from its own on, are what the peer goes on from.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = max((number for number, _ in self._journals()), default=0)
        self._file: int | None = None

    def load(self) -> Kept | None:
        """Read what was kept; None if nothing was. Raises `ConfigError` for what cannot be that."""
        if not self._path.exists():
            return None
        state = checkpoints.read(self._path)
        first = int(state.pop(_JOURNAL)) if _JOURNAL in state else 0
        entries = [entry for number, path in self._journals() if number >= first for entry in _entries(path)]
        return Kept(state, entries)

    def append(self, entry: MassEntry) -> None:
        """Note a change of the mass; it survives the process from here on, and a power cut from `sync` on."""
        if self._file is None:
            self.begin_journal()
        assert self._file is not None
        line = _encoder.encode(entry) + b"\n"
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
        """Write a snapshot, which this journal goes on from; older ones are no longer needed."""
        checkpoints.write(self._path, {**state, _JOURNAL: torch.tensor(number)})
        for old, path in self._journals():
            if old < number:
                path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete all that was kept: the run is over."""
        self.close()
        for path in (self._path, *(path for _, path in self._journals())):
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


def _entries(path: Path) -> list[MassEntry]:
    """Read a journal; a last line that was cut short was never acted upon."""
    lines = path.read_bytes().split(b"\n")
    try:
        return [_decoder.decode(line) for line in lines[:-1]]
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is damaged: {error}") from error
