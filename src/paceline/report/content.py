"""What a page shows of runs, as plain data: sections, and of their tables what they need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from paceline.topologies.reporting.base import Reporting, Summary
from paceline.topologies.reporting.formatting import printable
from paceline.topologies.reporting.sections import AnySection, Fleet, Gantt, Log, TableSection, Tiles
from paceline.topologies.reporting.tables import Table, Value, columns

MAX_NAMES = 40  # rows, lanes or curves of a figure
MAX_ROWS = 200  # of a table
MAX_LINES = 500  # of a log
MAX_SPANS = 8_000  # of a Gantt chart
MAX_POINTS = 40_000  # of any other figure, about 3 MB of the page
SETTINGS = "Settings"
"""Table of the resolved job, a row per key."""

_KEY_AND_VALUE = columns("key text", "value text")

RunState: TypeAlias = Literal["running", "ended", "interrupted"]
"""Whether a process records a run, or it is over, or neither."""


class PageContent(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page shows.

    Attributes:
        ended: why the run is over; None if no end was recorded.
        about: the job in a line.
        tables: those that sections refer to, cut to what they show.
        at: seconds of the run's clock when this was made; `clock` says whether they are those of the world.
        notices: sentences that a reader should see first.
    """

    kind: str
    name: str
    ended: str | None
    about: str
    sections: list[AnySection]
    tables: dict[str, Table]
    at: float = 0.0
    clock: Literal["virtual", "real"] = "virtual"
    state: RunState = "ended"
    notices: list[str] = msgspec.field(default_factory=list)


def make_content(
    name: str, reporting: Reporting, summary: Summary, further: Mapping[str, Mapping[str, Any]], state: RunState
) -> PageContent:
    """Gather what the page of a run shows.

    Args:
        further: settings to show, by title.
    """
    tables = dict(summary.tables)
    sections = reporting.shown(tables)
    for title, settings in further.items():
        tables[title] = Table(title, _KEY_AND_VALUE, list(_flat(settings)))
        sections.append(TableSection(title=title, group="Settings and versions", table=title, is_half=True))
    return PageContent(
        kind=reporting.kind,
        name=printable(name),
        ended=None if summary.ended is None else printable(summary.ended),
        about=summary.about,
        sections=[_with_note(section, tables[section.table]) for section in sections],
        tables=cut_tables(tables, sections),
        clock="real" if getattr(summary, "clock", None) == "live" else "virtual",
        state=state,
        notices=reporting.notices(tables),
    )


def cut_tables(tables: Mapping[str, Table], sections: Iterable[AnySection]) -> dict[str, Table]:
    """Keep of tables what these sections show."""
    showing: dict[str, list[AnySection]] = {}
    for section in sections:
        for name in section.used_tables():
            showing.setdefault(name, []).append(section)
    return {name: _cut(tables[name], some) for name, some in showing.items()}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """List nested settings by dotted keys."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _names_column(section: AnySection) -> str | None:
    """The column whose values have a row, a lane or a curve each, of which not all are drawn."""
    return None if isinstance(section, Fleet) else getattr(section, "row", None) or getattr(section, "series", None)


def _with_note(section: AnySection, table: Table) -> AnySection:
    """Say in the note what of a table is not shown."""
    names, num_rows = _names_column(section), len(table.rows)
    notes = [section.note] if section.note else []
    if isinstance(section, TableSection):
        if num_rows > MAX_ROWS:
            notes.append(f"the first {MAX_ROWS} of {num_rows:,}; all are in {section.file}")
    elif names is not None and (num_names := len(set(table.values(names)))) > MAX_NAMES:
        notes.append(f"the first {MAX_NAMES} of {num_names:,}")
    if isinstance(section, Gantt) and num_rows > MAX_SPANS:
        notes.append(f"the last {MAX_SPANS:,} spans of time")
    return msgspec.structs.replace(section, note="; ".join(notes))


def _cut(table: Table, sections: list[AnySection]) -> Table:
    """Keep the columns and rows that these sections show, with digits enough to draw them."""
    used = set().union(*(used_columns(section, table) for section in sections))
    kept: set[int] = set()
    for section in sections:
        kept |= _kept_rows(section, table)
    places = [place for place, column in enumerate(table.columns) if column.name in used]
    rows = [tuple(_short(table.rows[row][place]) for place in places) for row in sorted(kept)]
    return Table(table.name, tuple(table.columns[place] for place in places), rows)


def used_columns(section: AnySection, table: Table) -> set[str]:
    """Names of the columns of a table that a section shows."""
    return section.used_tables()[table.name] or {column.name for column in table.columns}


def _kept_rows(section: AnySection, table: Table) -> set[int]:
    rows: Sequence[int] = range(len(table.rows))
    if isinstance(section, TableSection | Tiles):
        return set(rows[:MAX_ROWS])
    if isinstance(section, Fleet | Log):
        return set(rows[-(MAX_LINES if isinstance(section, Log) else MAX_POINTS) :])
    names = _names_column(section)
    if names is not None:
        values = table.values(names)
        shown = set(list(dict.fromkeys(values))[:MAX_NAMES])
        rows = [row for row in rows if values[row] in shown]
    return set(rows[-(MAX_SPANS if isinstance(section, Gantt) else MAX_POINTS) :])


def _short(value: Value) -> Value:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):  # JSON has no infinity
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value
