"""Writes the record of a run as it happens: events as lines, each with a checksum, and the rows of tables.

A disk that refuses them loses nothing, if it takes them again within a while: until then they wait in memory, in order.
"""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from paceline import events, files
from paceline.events import Event
from paceline.topologies.reporting.tables import GrowingTable, RecordedTable

PATIENCE_SECONDS = 60.0
"""Longest that a disk may refuse the record, on the clock of the host, before the run is to end."""

MAX_WAITING_BYTES = 16 << 20
"""Most of the record that waits in memory for a disk that refuses it."""

_CHECKSUM = b',"crc":"%08x"}\n'
_CHECKSUM_BYTES = len(_CHECKSUM % 0)
_CHECKSUM_KEY = _CHECKSUM[: _CHECKSUM.index(b"%")]


def to_line(event: Event) -> bytes:
    """Encode an event as one line of JSON, whose last key is the checksum of all before it."""
    text = events.to_line(event)[:-2]  # without the last brace
    return text + _CHECKSUM % zlib.crc32(text)


def from_line(line: bytes) -> Event:
    """Decode a line; raises `ValueError` if it is damaged, or no event. A line without a checksum is not checked."""
    text, checksum = line[:-_CHECKSUM_BYTES], line[-_CHECKSUM_BYTES:]
    if checksum.startswith(_CHECKSUM_KEY) and checksum != _CHECKSUM % zlib.crc32(text):
        raise ValueError("its checksum is another")
    try:
        return events.from_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error


def _now() -> float:
    """Tell the host's time, whatever events say: that of the loop here; in other threads, it is the same clock."""
    loop = asyncio._get_running_loop()
    return time.monotonic() if loop is None else loop.time()


class _WaitingFile:
    """A file that takes pieces in order, and keeps those that could not be written for the next time."""

    def __init__(self, path: Path) -> None:
        self._file = files.GrowingFile(path)
        self._waiting: deque[bytes] = deque()
        self.path = path
        self.num_waiting_bytes = 0

    def add(self, piece: bytes) -> None:
        """Add a piece, to be written by `flush`."""
        self._waiting.append(piece)
        self.num_waiting_bytes += len(piece)

    def flush(self) -> None:
        """Write what waits; raises `OSError` at the first piece that cannot be, which goes on waiting."""
        while self._waiting:
            self._file.append(self._waiting[0])
            self.num_waiting_bytes -= len(self._waiting.popleft())

    def rewrite(self) -> None:
        """Write all of it anew, and wait until the disk has it; raises `OSError`."""
        files.replace(self.path, self.path.read_bytes())
        self.close()
        self._file = files.GrowingFile(self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Recorder:
    """Appends to the file of events and to those of tables, at once unless the disk refuses it; from any thread.

    Args:
        kept: events that are in the file already; tables are made of them anew.

    Attributes:
        failure: the file that cannot be written, and why; None if all is well.
        has_given_up: whether the disk has refused it for so long, or so much, that events are lost.
    """

    def __init__(self, events_file: Path, tables: Sequence[RecordedTable], kept: Sequence[Event] = ()) -> None:
        self.failure: str | None = None
        self.has_given_up = False
        self._is_doubtful = False
        self._failing_since: float | None = None
        self._lock = threading.Lock()
        self._tables: list[tuple[_WaitingFile, GrowingTable]] = []
        self._events = _WaitingFile(events_file)
        self._files = [self._events]
        try:
            for recorded in tables:
                path, table = events_file.with_name(recorded.file), recorded.begin()
                files.replace(path, "".join(map(table.csv_of, kept)).encode(), is_synced=False)
                self._tables.append((_WaitingFile(path), table))
                self._files.append(self._tables[-1][0])
        except BaseException:
            self._let_go()
            raise

    def record(self, event: Event) -> None:
        """Write an event, and its rows if it has any; one write each. Does not raise."""
        with self._lock:
            if self.has_given_up:
                return
            self._events.add(to_line(event))
            for file, table in self._tables:
                text = table.csv_of(event)
                if text:
                    file.add(text.encode())
            if self._flush():
                return
            now = _now()
            if self._failing_since is None or now < self._failing_since:  # virtual time begins with the run
                self._failing_since = now
            num_bytes = sum(file.num_waiting_bytes for file in self._files)
            self.has_given_up = now - self._failing_since > PATIENCE_SECONDS or num_bytes > MAX_WAITING_BYTES

    def sync(self) -> bool:
        """Write what waits, and wait until the disk has all events; returns whether it does."""
        with self._lock:
            is_done = self._flush() and (not self._is_doubtful or self._try(self._events.rewrite))
        if is_done:  # the lock is not held: it takes long, and others may record meanwhile
            is_done = self._try(lambda: files.disk().sync(self._events.path))
            # After a sync that failed, a system may take what it has dropped for written, and the next one succeeds.
            self._is_doubtful = not is_done
        return is_done and not self.has_given_up

    def _try(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except OSError as error:
            return self._fail(self._events, error)
        return True

    def _flush(self) -> bool:
        for file in self._files:
            try:
                file.flush()
            except OSError as error:
                return self._fail(file, error)
        self._failing_since = None
        if not self.has_given_up:
            self.failure = None
        return True

    def _fail(self, file: _WaitingFile, error: OSError) -> bool:
        self.failure = f"{file.path} cannot be written: {files.reason_of(error)}"
        return False

    def close(self) -> None:
        """Write what waits, if that can be, and let go of the files."""
        try:
            self.sync()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for file in self._files:
            file.close()
