"""Puts several runs on one page: their figures side by side, their curves over each other, and how they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from paceline.report.content import SETTINGS, PageContent, RunState
from paceline.topologies.reporting.sections import AnySection, Line, TableSection, Tiles
from paceline.topologies.reporting.tables import Column, Table, Value, columns

MAX_RUNS = 8
_STATES: tuple[RunState, ...] = ("running", "interrupted")  # where one run is so, all of them are together
_RUN, _TIME = Column("run", "run"), Column("time", "time", "seconds")


def compare(runs: Sequence[PageContent]) -> PageContent:
    """Make one content of several; what cannot be laid over each other is left to their own pages."""
    tables = {"runs": _figures(runs)}
    sections: list[AnySection] = [
        TableSection(
            title="Runs", table="runs", caption="Figures of the runs as they stand; good runs reach more in less time."
        )
    ]
    groups: dict[str, dict[str, None]] = {}  # with the titles in them, in order
    for own in (line for run in runs for line in _lines(run)):
        groups.setdefault(own.group, {})[own.title] = None
    for title in dict.fromkeys(title for titles in groups.values() for title in titles):
        line, joined = _laid_over(title, runs)
        sections.append(line)
        tables[line.table] = joined
    tables["differences"] = _differences(runs)
    caption = "Runs that are compared should differ in little."
    sections.append(TableSection(title="Settings that differ", group="Settings", table="differences", caption=caption))
    names, states = ", ".join(run.name for run in runs), [run.state for run in runs]
    return PageContent(
        kind="comparison",
        name=names,
        ended="all of them" if set(states) == {"ended"} else None,
        about=f"{len(runs)} runs",
        sections=[one for one in sections if tables[one.table].rows],
        tables=tables,
        state=next((one for one in _STATES if one in states), "ended"),
    )


def _lines(run: PageContent) -> Iterable[Line]:
    """Return the curves that runs can be told by: one of each run, not one of each device."""
    return (one for one in run.sections if isinstance(one, Line) and (one.series is None or one.bold is not None))


def _laid_over(title: str, runs: Sequence[PageContent]) -> tuple[Line, Table]:
    """Join the curves that runs have under a title, over axes that all have; of different kinds, that is time."""
    own = [(run, line) for run in runs for line in _lines(run) if line.title == title]
    axes = [_axes(run, line) for run, line in own]
    common = [name for name in axes[0].values() if all(name in others.values() for others in axes)]
    x, *other_x = common or axes[0].values()
    shown: dict[str, Column] = {}
    rows: list[dict[str, Value]] = []
    for (run, line), names in zip(own, axes, strict=True):
        table = run.tables[line.table]
        used = {one.name: names.get(one.name, one.name) for one in table.columns if one.name in line.used_columns()}
        for column in table.columns:
            if column.name in used:
                shown.setdefault(used[column.name], _TIME if used[column.name] == _TIME.name else column)
        for record in table.records():
            if line.series is None or record[line.series] == line.bold:
                rows.append({_RUN.name: run.name, **{used[column]: record[column] for column in used}})
    first = own[0][1]
    name, heads = f"{first.table}: {title}", (_RUN, *shown.values())
    details = (_RUN.name, *(axes[0].get(column, column) for column in first.details))
    laid = replace(first, table=name, x=x, other_x=tuple(other_x), series=_RUN.name, bold=None, details=details)
    joined = Table(name, heads, [tuple(row.get(column.name) for column in heads) for row in rows])
    return replace(laid, note="", shape="line"), joined


def _axes(run: PageContent, line: Line) -> dict[str, str]:
    """Return what the axes of a run's curve are called beside other runs, by column: time has one name in all."""
    kinds = {column.name: column.kind for column in run.tables[line.table].columns}
    return {name: _TIME.name if kinds[name] == "seconds" else name for name in (line.x, *line.other_x)}


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
