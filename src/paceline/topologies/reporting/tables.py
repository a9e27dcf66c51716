"""Tables of what happened in a run: plain data that files, summaries and pages are made from."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal[
    "text", "count", "number", "seconds", "ratio", "lateness", "bytes", "joules", "grams", "money", "bool"
]
"""Kind of value in a column, which decides how it is written. A lateness is (time − deadline) / deadline."""

Value: TypeAlias = str | int | float | bool | None


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its name in files and code, its title on pages, its kind, and a unit to write after it."""

    name: str
    title: str
    kind: Kind = "text"
    unit: str = ""


class Table(msgspec.Struct):
    """Rows of values under named columns; None where a value is not known."""

    name: str
    columns: tuple[Column, ...]
    rows: list[tuple[Value, ...]] = msgspec.field(default_factory=list)

    def records(self) -> list[dict[str, Any]]:
        """Rows as dictionaries from column name to value."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def values(self, column: str) -> list[Any]:
        """Values of one column."""
        place = [one.name for one in self.columns].index(column)
        return [row[place] for row in self.rows]

    def to_csv(self) -> str:
        """CSV text with a header of column names; unknown values are empty."""
        return csv_text([[column.name for column in self.columns], *self.rows])


class RecordedTable(msgspec.Struct, frozen=True):
    """A table that grows by at most one row per event, so that a run writes it to ``<name>.csv`` while it goes on.

    Attributes:
        make_rows: returns a function that is called with every event in order and returns the row of those with one.
    """

    name: str
    columns: tuple[Column, ...]
    make_rows: Callable[[], Callable[[Any], Sequence[Value] | None]]

    @property
    def file(self) -> str:
        """Name of its file in a run folder."""
        return f"{self.name}.csv"

    def rows(self, events: Iterable[Any]) -> list[tuple[Value, ...]]:
        """Rows of all these events."""
        return [tuple(row) for row in map(self.make_rows(), events) if row is not None]


def columns(*specs: str) -> tuple[Column, ...]:
    """Make columns of ``name kind title [unit]``; the title is the name in words if left out, and a unit may follow."""
    return tuple(map(_column, specs))


def _column(spec: str) -> Column:
    whole, _, unit = spec.rstrip("]").partition(" [")
    name, kind, *title = whole.split(" ", 2)
    parts = {"name": name, "title": title[0] if title else name.replace("_", " "), "kind": kind, "unit": unit}
    return msgspec.convert(parts, Column)


def recorded_table(name: str, event: type[Any], columns: tuple[Column, ...]) -> RecordedTable:
    """Make a table with a row per event of one type, whose columns are fields of it."""
    names = [column.name for column in columns]

    def make_row(one: Any) -> Sequence[Value] | None:
        return [getattr(one, name) for name in names] if isinstance(one, event) else None

    return RecordedTable(name, columns, lambda: make_row)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
