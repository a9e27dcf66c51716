"""Tables, sections and lines that the reports of several topologies have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.reporting.energy_and_bytes import TOTALS
from paceline.topologies.reporting.formatting import printable
from paceline.topologies.reporting.sections import AnySection, Line, TableSection, Tile
from paceline.topologies.reporting.tables import Table, Value, columns

HAPPENINGS = columns("at seconds", "what text what happened")
"""Columns of the table of what is worth a line."""


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


def summary_table(figures: dict[str, Value], usage: dict[str, Value]) -> Table:
    """Make the table of headline figures, given by column (see `columns`), and of what was used."""
    shown = (*columns(*figures), *TOTALS)
    return Table("summary", shown, [(*figures.values(), *(usage[column.name] for column in TOTALS))])


def accuracy_of(result: Mapping[str, Any], then: str = "") -> str:
    """Write the accuracy of a result, and a word to go on with; nothing if it was not measured."""
    return "" if result.get("accuracy") is None else f"accuracy {result['accuracy']:.1%} {then}"


def mean(values: Iterable[float | None]) -> float | None:
    """Average the values that are known; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def describe_membership(event: Event) -> str | None:
    """Say who came or went, or who is awaited; None for other events."""
    match event:
        case LearnerJoined(learner=name, is_back=is_back):
            return f"{printable(name)} {'is back' if is_back else 'joined'}"
        case LearnerLeft(learner=name, reason=reason):
            return f"{printable(name)} left: {printable(reason)}"
        case WaitingForLearners(round=number, num_ready=num_ready, min_learners=min_learners):
            waits = f"round {number} waits" if number else "waiting"
            return f"{waits} for devices: {num_ready} of {min_learners} ready"
    return None


def end_of(left_because: str | None) -> str:
    """Say whether a device was there at the end, or why it was not."""
    return "there" if left_because is None else f"left: {printable(left_because)}"


def result_tile(summary: dict[str, Any]) -> Tile:
    """Make the tile of the accuracy, with the loss."""
    return Tile("accuracy", f"loss {summary['loss']:.3f}" if summary["loss"] is not None else "")


def learning_lines(table: str, x: str, notes: tuple[str, str], losses: tuple[str, ...] = ("loss",)) -> list[AnySection]:
    """Show accuracy and losses over rounds or epochs, with a note for each."""
    chosen: tuple[tuple[str, tuple[str, ...], str], ...] = (
        ("Accuracy", ("accuracy",), "Accuracy on the test data climbs, then levels off."),
        ("Loss", losses, "Loss on the test data falls, then levels off; a lasting rise means that training diverges."),
    )
    return [
        Line(
            title=f"{title} per {x}",
            group="Learning",
            table=table,
            caption=caption,
            note=note,
            x=x,
            y=y,
            details=(x, "accuracy", *losses),
            is_half=True,
        )
        for (title, y, caption), note in zip(chosen, notes, strict=True)
    ]


def happenings_section(caption: str) -> TableSection:
    """Show what is worth a line."""
    return TableSection(title="What happened", group="What happened", table="happenings", caption=caption)
