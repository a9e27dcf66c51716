"""Tables of what happened in a run: plain data that files, summaries and pages are made from."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from paceline.learning.scores import is_ratio
from paceline.topologies.events import StartEvent

Kind: TypeAlias = Literal[
    "text", "count", "number", "seconds", "ratio", "lateness", "bytes", "joules", "grams", "money", "bool"
]
"""Kind of value in a column, which decides how it is written. A lateness is (time − deadline) / deadline."""

Value: TypeAlias = str | int | float | bool | None


_STEPS = ("round", "epoch")


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its name in files and code, its title on pages, its kind, and a unit to write after it.

    Attributes:
        is_metric: whether it is a metric of the task, so that runs differ in it.
    """

    name: str
    title: str
    kind: Kind = "text"
    unit: str = ""
    is_metric: bool = False


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

    @property
    def metrics(self) -> tuple[Column, ...]:
        """Columns with metrics of the task."""
        return tuple(column for column in self.columns if column.is_metric)

    def to_csv(self) -> str:
        """CSV text with a header of column names; unknown values are empty."""
        return csv_text([[column.name for column in self.columns], *self.rows])


class RecordedTable(msgspec.Struct, frozen=True):
    """A table that grows by at most one row per event, so that a run writes it to ``<name>.csv`` while it goes on.

    Trackers and metrics read it by its columns: one called `round` or `epoch` says when a row was in training, text
    says what the row is about, and the others are its figures.

    Attributes:
        columns: those of all runs.
        make_rows: returns a function that is called with every event in order and returns the row of those with one.
        has_metrics: whether a column for each metric of the task comes after them, with the metrics of events.
    """

    name: str
    columns: tuple[Column, ...]
    make_rows: Callable[[], Callable[[Any], Sequence[Value] | None]]
    has_metrics: bool = False

    @property
    def file(self) -> str:
        """Name of its file in a run folder."""
        return f"{self.name}.csv"

    def begin(self) -> GrowingTable:
        """Begin the table of a run."""
        return GrowingTable(self)


class GrowingTable:
    """A recorded table of one run, row by row.

    Attributes:
        columns: its columns; those of metrics follow when the run starts.
    """

    def __init__(self, recorded: RecordedTable) -> None:
        self.columns = recorded.columns
        self._recorded = recorded
        self._make_row = recorded.make_rows()
        self._metric_names: tuple[str, ...] = ()
        self._has_started = self._has_header = False

    def row(self, event: Any) -> tuple[Value, ...] | None:
        """Return the row of the next event; None if it has none."""
        if isinstance(event, StartEvent) and self._recorded.has_metrics and not self._has_started:
            self._metric_names, self._has_started = event.metric_names, True
            self.columns = (*self._recorded.columns, *metric_columns(event.metric_names))
        row = self._make_row(event)
        return None if row is None else (*row, *(event.metrics.get(name) for name in self._metric_names))

    @property
    def step(self) -> str | None:
        """Name of the column with the round or epoch that a row is about; None if there is none."""
        return next((column.name for column in self.columns if column.name in _STEPS), None)

    def csv_of(self, event: Any) -> str:
        """Return what the next event adds to the table as CSV: the header once columns are known, and its row."""
        row = self.row(event)
        rows: list[Iterable[object]] = [] if row is None else [row]
        if not self._has_header and (rows or self._has_started or not self._recorded.has_metrics):
            self._has_header = True
            rows.insert(0, [column.name for column in self.columns])
        return csv_text(rows)


def columns(*specs: str) -> tuple[Column, ...]:
    """Make columns of ``name kind title [unit]``; the title is the name in words if left out, and a unit may follow."""
    return tuple(map(_column, specs))


def _column(spec: str) -> Column:
    whole, _, unit = spec.rstrip("]").partition(" [")
    name, kind, *title = whole.split(" ", 2)
    parts = {"name": name, "title": title[0] if title else name.replace("_", " "), "kind": kind, "unit": unit}
    return msgspec.convert(parts, Column)


def metric_title(name: str) -> str:
    """Write the name of a metric in words."""
    return name.replace("_", " ")


def metric_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """Make a column for each of these metrics."""
    return tuple(Column(name, metric_title(name), "ratio" if is_ratio(name) else "number", "", True) for name in names)


def recorded_table(
    name: str, event: type[Any], columns: tuple[Column, ...], *, has_metrics: bool = False
) -> RecordedTable:
    """Make a table with a row per event of one type, whose columns are fields of it."""
    names = [column.name for column in columns]

    def make_row(one: Any) -> Sequence[Value] | None:
        return [getattr(one, name) for name in names] if isinstance(one, event) else None

    return RecordedTable(name, columns, lambda: make_row, has_metrics)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
