"""What differs between two contents of a page, so that a browser that has one need not be sent the other whole."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.report.content import PageContent
from paceline.topologies.reporting.tables import Column, Table, Value


class TableChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to make a table's new rows of those that it had.

    Attributes:
        columns: all of them, if they are others; then all rows are given, too.
        drop: how many rows go from the front, before anything else.
        length: number of rows in the end.
        rows: rows to put at a place; those at the end are new.
    """

    length: int
    columns: tuple[Column, ...] | None = None
    drop: int = 0
    rows: list[tuple[int, tuple[Value, ...]]] = msgspec.field(default_factory=list)


def changes(old: PageContent, new: PageContent) -> dict[str, Any] | None:
    """Return what makes the new content of the old one, or None if nothing but the time has changed."""
    fields = ("kind", "name", "ended", "about", "clock", "state", "notices", "sections")
    changed = {name: getattr(new, name) for name in fields if getattr(new, name) != getattr(old, name)}
    tables: dict[str, TableChange | None] = dict.fromkeys(old.tables.keys() - new.tables.keys())
    for name, table in new.tables.items():
        change = _table_change(old.tables.get(name), table)
        if change is not None:
            tables[name] = change
    if not changed and not tables:
        return None
    return {"at": new.at, "state": new.state, "ended": new.ended, "about": new.about, **changed, "tables": tables}


def _table_change(old: Table | None, new: Table) -> TableChange | None:
    length = len(new.rows)
    if old is None or old.columns != new.columns:
        return TableChange(columns=new.columns, length=length, rows=list(enumerate(new.rows)))
    drop = _num_dropped(old.rows, new.rows)
    before = old.rows[drop:]
    rows = [(place, row) for place, row in enumerate(new.rows) if place >= len(before) or before[place] != row]
    return TableChange(drop=drop, length=length, rows=rows) if drop or rows or length != len(before) else None


def _num_dropped(old: list[tuple[Value, ...]], new: list[tuple[Value, ...]]) -> int:
    """Return how many rows went from the front of a table that shows the last ones only."""
    if not old or not new or old[0] == new[0]:
        return 0
    try:
        return old.index(new[0])
    except ValueError:
        return 0
