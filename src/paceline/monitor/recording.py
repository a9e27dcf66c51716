"""Writes events to a file as they happen, and rows of tables for some of them."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from paceline import events
from paceline.errors import ConfigError
from paceline.events import Event

RowMaker: TypeAlias = Callable[[Event], Sequence[object] | None]
"""Is told of all events in order, and gives the row of those that have one."""


class Table(NamedTuple):
    """A file of rows that are made from events.

    Attributes:
        file: its name.
        make_rows: gives what makes its rows, from its start.
    """

    file: str
    columns: tuple[str, ...]
    make_rows: Callable[[], RowMaker]


def table_of(file: str, kind: type[Event], columns: tuple[str, ...]) -> Table:
    """A table with a row per event of a kind; its columns are fields of that."""

    def make_row(event: Event) -> Sequence[object] | None:
        return [getattr(event, column) for column in columns] if isinstance(event, kind) else None

    return Table(file, columns, lambda: make_row)


class Recorder:
    """Appends to the file of events and to those of tables, which are beside it, unbuffered.

    Attributes:
        failure: the first that happened; nothing is written after it.
    """

    def __init__(self, events_file: Path, tables: Iterable[Table]) -> None:
        self._events = events_file.open("ab", buffering=0)
        self._tables = [(events_file.with_name(one.file).open("ab", buffering=0), one.make_rows()) for one in tables]
        self.failure: OSError | None = None

    def record(self, event: Event) -> None:
        """Write an event, and its rows if it has any; one write each."""
        if self.failure is not None:  # a line after a cut one would be lost with it
            return
        try:
            _write(self._events, events.to_line(event))
            for file, make_row in self._tables:
                row = make_row(event)
                if row is not None:
                    _write(file, csv_rows([row]))
        except OSError as error:
            self.failure = error

    def close(self) -> None:
        """Let go of the files."""
        self._events.close()
        for file, _ in self._tables:
            file.close()


def csv_rows(rows: Iterable[Iterable[object]]) -> bytes:
    """Rows of a table as they stand in its file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def as_json(value: object) -> bytes:
    """A value as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; raises `ConfigError` if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def replace(path: Path, content: bytes) -> None:
    """Write a file such that it is whole at any time."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _write(file: io.FileIO, content: bytes) -> None:
    num_written = file.write(content)
    if num_written != len(content):
        raise OSError(f"{num_written} of {len(content)} bytes could be written")
