"""Writes the page of a run of any kind: one HTML file that needs no network and no other file.

Three things are kept apart: the content (`PageContent`, plain data), how it reaches the page (embedded as JSON), and
how it is drawn (the scripts in ``web/``, and plain HTML tables for browsers without scripts).
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from paceline import files
from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.errors import ConfigError
from paceline.report.document import make_document
from paceline.report.folder import RunFolder
from paceline.topologies.reporting.base import Reporting, Summary
from paceline.topologies.reporting.formatting import format_value, printable
from paceline.topologies.reporting.sections import AnySection, Gantt, TableSection, Tiles
from paceline.topologies.reporting.tables import Table, Value, columns

MAX_NAMES = 40  # rows, lanes or curves of a figure
MAX_ROWS = 200  # of a table
MAX_SPANS = 8_000  # of a Gantt chart
MAX_POINTS = 40_000  # of any other figure, about 3 MB of the page
_SETTINGS = columns("key text", "value text")


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
    state: Literal["running", "ended", "interrupted"] = "ended"
    notices: list[str] = []


def write_report(folder: RunFolder, output: Path | None = None, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> Path:
    """Write the page of a run, finished or not, into its folder or to `output`; returns where it is.

    Args:
        grams_per_kwh: carbon intensity of the devices' energy.
    """
    name, summary = folder.path.resolve().name, folder.summary(grams_per_kwh=grams_per_kwh)
    path = output or folder.report
    try:
        files.replace(path, _document(make_content(name, folder.reporting, summary, folder)).encode())
    except OSError as error:
        raise ConfigError(f"{path}: the report cannot be written there: {error.strerror}") from error
    return path


def make_content(name: str, reporting: Reporting, summary: Summary, folder: RunFolder) -> PageContent:
    """Gather what the page of a run shows, with its settings and versions."""
    tables = dict(summary.tables)
    sections = reporting.shown(tables)
    for title, settings in (("Settings", folder.settings), ("Versions", folder.versions)):
        tables[title] = Table(title, _SETTINGS, list(_flat(settings)))
        sections.append(TableSection(title=title, group="Settings and versions", table=title, is_half=True))
    shown = [_with_note(section, tables[section.table]) for section in sections]
    cut = {table: _cut(tables[table], [one for one in sections if one.table == table]) for table in tables}
    return PageContent(
        kind=reporting.kind,
        name=printable(name),
        ended=None if summary.ended is None else printable(summary.ended),
        about=summary.about,
        sections=shown,
        tables={table.name: table for table in cut.values() if table.columns},
        state="interrupted" if summary.ended is None else "ended",
    )


def _document(content: PageContent) -> str:
    return make_document(f"{content.name} – Paceline {content.kind}", {"content": content}, _plain(content))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """List nested settings by dotted keys."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _names_column(section: AnySection) -> str | None:
    """The column whose values have a row, a lane or a curve each."""
    return getattr(section, "row", None) or getattr(section, "series", None)


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
    used = set().union(*(_used(section, table) for section in sections))
    kept: set[int] = set()
    for section in sections:
        kept |= _kept_rows(section, table)
    places = [place for place, column in enumerate(table.columns) if column.name in used]
    rows = [tuple(_short(table.rows[row][place]) for place in places) for row in sorted(kept)]
    return Table(table.name, tuple(table.columns[place] for place in places), rows)


def _used(section: AnySection, table: Table) -> set[str]:
    return section.used_columns() or {column.name for column in table.columns}


def _kept_rows(section: AnySection, table: Table) -> set[int]:
    if isinstance(section, TableSection | Tiles):
        return set(range(min(len(table.rows), MAX_ROWS)))
    rows: Iterable[int] = range(len(table.rows))
    names = _names_column(section)
    if names is not None:
        values = table.values(names)
        shown = set(list(dict.fromkeys(values))[:MAX_NAMES])
        rows = [row for row in rows if values[row] in shown]
    return set(list(rows)[-(MAX_SPANS if isinstance(section, Gantt) else MAX_POINTS) :])


def _short(value: Value) -> Value:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):  # JSON has no infinity
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def _plain(content: PageContent) -> str:
    """Write the content as plain tables."""
    status = "not finished: no end was recorded" if content.ended is None else f"finished: {content.ended}"
    parts = [f"<h1>{html.escape(content.name)}</h1>", f"<p>{html.escape(f'{status} · {content.about}')}</p>"]
    return "".join([*parts, *(_plain_section(section, content.tables[section.table]) for section in content.sections)])


def _plain_section(section: AnySection, table: Table) -> str:
    used = _used(section, table)
    shown = [place for place, column in enumerate(table.columns) if column.name in used]
    if isinstance(section, Tiles):
        heads: list[str] = ["figure", "value", "note"]
        place = {column.name: index for index, column in enumerate(table.columns)}
        rows = [
            [table.columns[at].title, format_value(table.rows[0][at], table.columns[at]), tile.note]
            for tile in section.tiles
            for at in [place[tile.column]]
        ]
    else:
        heads = [table.columns[at].title for at in shown]
        rows = [[format_value(row[at], table.columns[at]) for at in shown] for row in table.rows[:MAX_ROWS]]
    head = "".join(f'<th scope="col">{html.escape(one)}</th>' for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    caption = html.escape(". ".join(filter(None, [section.title, section.note, section.caption])))
    return f'<div class="card scroll"><table><caption>{caption}</caption><tr>{head}</tr>{body}</table></div>'
