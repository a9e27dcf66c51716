"""The rows by which a topology's tables grow while a run goes on, for whoever follows it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.events import Event
from paceline.topologies.reporting.base import Reporting
from paceline.topologies.reporting.tables import Column, GrowingTable, Value


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row that a topology's table has grown by.

    Attributes:
        table: name of the table, as that of its CSV file.
        step: round or epoch that it is about.
        at: seconds of the run, on its own clock.
        labels: what else it is about, by column, such as the device.
        figures: what is known of its numbers, by column. Beside a lateness there is the share of the deadline that was
            used, `deadline_use`.
    """

    table: str
    step: int
    at: float
    labels: Mapping[str, str]
    figures: Mapping[str, float]

    @property
    def named_figures(self) -> dict[str, float]:
        """Figures by a name of their own: ``metrics/loss``, or ``epochs/peer-1/loss`` with labels."""
        prefix = "/".join((self.table, *self.labels.values()))
        return {f"{prefix}/{name}": figure for name, figure in self.figures.items()}


class RowReader:
    """The rows by which the tables of a run, or of a job, grow."""

    def __init__(self, reporting: Reporting) -> None:
        self._tables = [(recorded.name, recorded.begin()) for recorded in reporting.recorded]
        self._num_rows: Counter[tuple[str, ...]] = Counter()

    def of(self, event: Event) -> list[Row]:
        """Return the rows that an event adds."""
        grown = [(name, table, table.row(event)) for name, table in self._tables]
        return [self._made(name, table, row, event.at) for name, table, row in grown if row is not None]

    def _made(self, name: str, table: GrowingTable, row: Sequence[Value], at: float) -> Row:
        values = dict(zip((column.name for column in table.columns), row, strict=True))
        labels = {one.name: str(values[one.name]) for one in table.columns if one.kind == "text" and values[one.name]}
        about = (name, *labels.values())
        self._num_rows[about] += 1
        step = self._num_rows[about] if table.step is None else values[table.step]
        figures = {name: figure for name, figure in numbers_of(table.columns, row) if name not in ("at", table.step)}
        for lateness in (one.name for one in table.columns if one.kind == "lateness" and one.name in figures):
            figures.setdefault("deadline_use", 1.0 + figures[lateness])
        return Row(table=name, step=int(step or 0), at=at, labels=labels, figures=figures)


def numbers_of(columns: Sequence[Column], row: Sequence[Value]) -> list[tuple[str, float]]:
    """Return what is known of the numbers of a row."""
    return [
        (column.name, float(value))
        for column, value in zip(columns, row, strict=True)
        if isinstance(value, int | float) and math.isfinite(value)
    ]
