"""Writes the page of a run of any kind: one HTML file that needs no network and no other file.

Three things are kept apart: the content (`PageContent`, plain data), how it reaches the page (embedded as JSON), and
how it is drawn (the scripts in ``web/``, and plain HTML tables for browsers without scripts).
"""

from __future__ import annotations

import html
from pathlib import Path

from paceline import files
from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.errors import ConfigError
from paceline.report.content import MAX_ROWS, PageContent, used_columns
from paceline.report.document import make_document
from paceline.report.folder import RunFolder
from paceline.report.following import FollowedRun
from paceline.topologies.reporting.formatting import format_value
from paceline.topologies.reporting.sections import AnySection, Tiles
from paceline.topologies.reporting.tables import Table


def write_report(folder: RunFolder, output: Path | None = None, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> Path:
    """Write the page of a run, finished or not, into its folder or to `output`; returns where it is.

    Args:
        grams_per_kwh: carbon intensity of the devices' energy.
    """
    path = output or folder.report
    try:
        files.replace(path, make_page(folder.path, grams_per_kwh).encode())
    except OSError as error:
        raise ConfigError(f"{path}: the report cannot be written there: {error.strerror}") from error
    return path


def make_page(folder: Path, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> str:
    """Return the page of a run as it stands, finished or not."""
    run = FollowedRun(folder, grams_per_kwh)
    run.read()
    content = run.content()
    return make_document(f"{content.name} – Paceline {content.kind}", {"content": content}, _plain(content))


def _plain(content: PageContent) -> str:
    """Write the content as plain tables."""
    status = "not finished: no end was recorded" if content.ended is None else f"finished: {content.ended}"
    parts = [f"<h1>{html.escape(content.name)}</h1>", f"<p>{html.escape(f'{status} · {content.about}')}</p>"]
    return "".join([*parts, *(_plain_section(section, content.tables[section.table]) for section in content.sections)])


def _plain_section(section: AnySection, table: Table) -> str:
    used = used_columns(section, table)
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
