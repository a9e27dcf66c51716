"""Puts several runs on one page: their figures side by side, their curves over each other, and how they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from paceline.report.content import SETTINGS, PageContent
from paceline.topologies.reporting.sections import AnySection, Line, TableSection, Tiles
from paceline.topologies.reporting.tables import Column, Table, Value, columns

MAX_RUNS = 8
_RUN = Column("run", "run")


def compare(runs: Sequence[PageContent]) -> PageContent:
    """Make one content of several; what cannot be laid over each other is left to their own pages."""
    tables = {"runs": _figures(runs)}
    sections: list[AnySection] = [
        TableSection(
            title="Runs", table="runs", caption="Figures of the runs as they stand; good runs reach more in less time."
        )
    ]
    for line in _distinct(line for run in runs for line in _lines(run)):
        name = f"{line.table}: {line.title}"
        tables[name] = _joined(name, line, runs)
        details = ("run", *line.details)
        sections.append(replace(line, table=name, series="run", bold=None, note="", shape="line", details=details))
    tables["differences"] = _differences(runs)
    caption = "Runs that are compared should differ in little."
    sections.append(TableSection(title="Settings that differ", group="Settings", table="differences", caption=caption))
    names, is_running = ", ".join(run.name for run in runs), any(run.state == "running" for run in runs)
    return PageContent(
        kind="comparison",
        name=names,
        ended=None if is_running else "all of them",
        about=f"{len(runs)} runs",
        sections=[one for one in sections if tables[one.table].rows],
        tables=tables,
        state="running" if is_running else "ended",
    )


def _lines(run: PageContent) -> Iterable[Line]:
    """Return the curves that runs can be told by: one of each run, not one of each device."""
    return (one for one in run.sections if isinstance(one, Line) and (one.series is None or one.bold is not None))


def _distinct(lines: Iterable[Line]) -> Iterable[Line]:
    """Return the first section of each title: of other runs, it is the same but for its notes."""
    first: dict[str, Line] = {}
    for line in lines:
        first.setdefault(line.title, line)
    return first.values()


def _joined(name: str, line: Line, runs: Sequence[PageContent]) -> Table:
    """Join the rows that a section shows of all runs."""
    own = [(run, one) for run in runs for one in _lines(run) if one.title == line.title]
    shown = {
        column.name: column
        for run, one in own
        for column in run.tables[one.table].columns
        if column.name in one.used_columns()
    }
    rows = [
        (run.name, *(record.get(column) for column in shown))
        for run, one in own
        for record in run.tables[one.table].records()
        if one.series is None or record[one.series] == one.bold
    ]
    return Table(name, (_RUN, *shown.values()), rows)


def _figures(runs: Sequence[PageContent]) -> Table:
    """Make a row of headline figures for each run."""
    shown: dict[str, Column] = {}
    figures: list[dict[str, Value]] = []
    for run in runs:
        tiles = next((one for one in run.sections if isinstance(one, Tiles)), None)
        summary = run.tables[tiles.table] if tiles else Table("", ())
        shown.update({column.name: column for column in summary.columns})
        figures.append(next(iter(summary.records()), {}))
    heads = (_RUN, *columns("state text"), *shown.values())
    rows = [
        (run.name, run.ended or run.state, *(figure.get(name) for name in shown))
        for run, figure in zip(runs, figures, strict=True)
    ]
    return Table("runs", heads, rows)


def _differences(runs: Sequence[PageContent]) -> Table:
    """Make a row for each setting in which runs differ."""
    settings = [{str(key): value for key, value in run.tables[SETTINGS].rows} for run in runs]
    keys = dict.fromkeys(key for one in settings for key in one)
    heads = (Column("key", "key"), *(Column(f"run_{number}", run.name) for number, run in enumerate(runs)))
    rows = [(key, *(one.get(key) for one in settings)) for key in keys if len({one.get(key) for one in settings}) > 1]
    return Table("differences", heads, rows)
