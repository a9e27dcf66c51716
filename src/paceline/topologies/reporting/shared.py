"""Tables, sections and lines that the reports of several topologies have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paceline.errors import ConfigError
from paceline.events import Event
from paceline.topologies.events import HostBack, HostLost, LearnerJoined, LearnerLeft, StateLost, WaitingForLearners
from paceline.topologies.reporting.energy_and_bytes import TOTALS
from paceline.topologies.reporting.formatting import describe_metrics, format_seconds, format_value, printable
from paceline.topologies.reporting.sections import AnySection, Line, Log, Tile
from paceline.topologies.reporting.tables import Column, Table, Value, columns, metric_columns

HAPPENINGS = columns("at seconds", "what text what happened")
"""Columns of the table of what is worth a line."""

LOSS_CAPTION = "Loss on the test data falls, then levels off; a lasting rise means that training diverges."
"""What a good curve of the loss looks like."""

_METRIC_NAME = re.compile(r"[A-Za-z][\w.@-]{0,63}")


class Happenings:
    """Collects what is worth a line into a table; of very many that came, only the first are listed."""

    _MAX_MINOR = 100

    def __init__(self) -> None:
        self._rows: list[tuple[float, str]] = []
        self._num_minor = 0

    def add(self, at: float, what: str | None) -> None:
        """Add a line; nothing if there is none, or if it is the last again."""
        if what is None or (self._rows and self._rows[-1][1] == what):
            return
        if " joined" in what:
            self._num_minor += 1
            if self._num_minor > self._MAX_MINOR:
                return
        self._rows.append((at, what))

    def table(self) -> Table:
        """Make the table of the lines so far, by time."""
        rows = sorted(self._rows, key=lambda row: row[0])
        if self._num_minor > self._MAX_MINOR:
            rows.append((rows[-1][0], f"{self._num_minor - self._MAX_MINOR:,} more joined meanwhile"))
        return Table("happenings", HAPPENINGS, list(rows))


def summary_table(figures: dict[str, Value], metrics: Mapping[str, Value], usage: dict[str, Value]) -> Table:
    """Make the table of headline figures, given by column (see `columns`), of metrics by name, and of what was used."""
    shown = (*columns(*figures), *metric_columns(metrics), *TOTALS)
    used = (usage[column.name] for column in TOTALS)
    return Table("summary", shown, [(*figures.values(), *metrics.values(), *used)])


def check_metric_names(names: Iterable[str], tables: Iterable[Table]) -> None:
    """Raise `ConfigError` for metrics whose names cannot be columns of these tables."""
    taken = {column.name for table in tables for column in table.columns}
    for name in names:
        if name in taken or not _METRIC_NAME.fullmatch(name):
            raise ConfigError(
                f"a metric of the task is called {name[:80]!r}: give it another name, of up to 64 letters, digits "
                "and . _ - @, which is not that of another figure of a run"
            )


def is_evaluated(event: Any) -> bool:
    """Return whether an event with a model says what that achieves."""
    return event.loss is not None or bool(event.metrics)


def mean(values: Iterable[float | None]) -> float | None:
    """Average the values that are known; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def describe_membership(event: Event) -> str | None:
    """Say who came or went, who is awaited, or what was lost; None for other events."""
    match event:
        case StateLost(what=what):
            return printable(what)
        case LearnerJoined(learner=name, is_back=is_back):
            return f"{printable(name)} {'is back' if is_back else 'joined'}"
        case LearnerLeft(learner=name, reason=reason):
            return f"{printable(name)} left: {printable(reason)}"
        case HostLost(learner=name, reason=reason, patience_seconds=seconds):
            return f"{printable(name)} has lost its host, and tries for {format_seconds(seconds)}: {printable(reason)}"
        case HostBack(learner=name):
            return f"{printable(name)} reaches its host again"
        case WaitingForLearners(round=number, num_ready=num_ready, min_learners=min_learners):
            waits = f"round {number} waits" if number else "waiting"
            return f"{waits} for devices: {num_ready} of {min_learners} ready"
    return None


def end_of(left_because: str | None) -> str:
    """Say whether a device was there at the end, or why it was not."""
    return "there" if left_because is None else f"left: {printable(left_because)}"


def result_tile(summary: Table) -> Tile:
    """Make the tile of the first metric, with the loss and the other metrics; of the loss alone if there is none."""
    (record,) = summary.records()
    metrics = {column.name: record[column.name] for column in summary.metrics}
    first, *others = metrics or ("loss",)
    loss = [f"loss {record['loss']:.3f}"] if metrics and record["loss"] is not None else []
    return Tile(first, ", ".join([*loss, *describe_metrics({name: metrics[name] for name in others})]))


def metric_caption(metric: Column) -> str:
    """Say what a good curve of a metric on the test data looks like."""
    begins = "climbs" if metric.name.endswith(("accuracy", "f1")) else "improves"
    return f"{capitalised(metric.title)} on the test data {begins}, then levels off."


def capitalised(title: str) -> str:
    """Write a title with its first letter as a capital."""
    return title[:1].upper() + title[1:]


def learning_lines(
    table: Table, x: str, other_x: tuple[str, ...], note_on: Callable[[str], str], losses: tuple[str, ...] = ("loss",)
) -> list[AnySection]:
    """Show metrics and losses over rounds or epochs, or over another column, with a note on each."""
    charts = [(one.title, (one.name,), metric_caption(one)) for one in table.metrics]
    details = (x, *(column.name for column in table.metrics), *losses)
    return [
        Line(
            title=capitalised(title),
            group="Learning",
            table=table.name,
            caption=caption,
            note=note_on(y[0]),
            x=x,
            other_x=other_x,
            y=y,
            details=details,
            is_half=True,
        )
        for title, y, caption in [*charts, ("loss", losses, LOSS_CAPTION)]
    ]


def last_figures(summary: Table) -> Callable[[str], str]:
    """Return a function that writes the last figure of a loss or metric."""
    ((row),) = summary.rows
    shown = {column.name: format_value(value, column) for column, value in zip(summary.columns, row, strict=True)}
    return lambda name: f"{shown[name]} at last"


def happenings_section(caption: str) -> Log:
    """Show what is worth a line."""
    return Log(title="What happened", group="What happened", table="happenings", caption=caption)
