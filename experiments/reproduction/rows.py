"""Rows of results: what an experiment measured, one row per run, round or setting, kept as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from paceline.errors import ConfigError

Value: TypeAlias = str | int | float | None
"""Value of a cell; None for an empty one. Truth is written as 1 and 0."""

Row: TypeAlias = Mapping[str, Any]
"""Cells by the name of their column; each is a `Value`."""

SEED = "seed"
"""Column that is added in front of an experiment's own."""


def write_rows(path: Path, rows: Iterable[Row]) -> Iterator[Row]:
    """Write rows to a CSV file as they come, and pass them on; all have the columns of the first."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            if list(row) != list(writer.fieldnames):
                raise ConfigError(
                    f"a row has the columns {', '.join(row)}; the first had {', '.join(writer.fieldnames)}"
                )
            writer.writerow({name: _cell(value) for name, value in row.items()})
            file.flush()
            yield row


def read_rows(path: Path) -> list[dict[str, Value]]:
    """Read the rows of a CSV file, numbers as numbers; raises `ConfigError` if it cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def where(rows: Iterable[Row], **cells: Value) -> list[Row]:
    """Select the rows that have these cells."""
    return [row for row in rows if all(row[name] == value for name, value in cells.items())]


def by_seed(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Group rows by seed, in order."""
    grouped: dict[int, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row[SEED], []).append(row)
    return grouped


def _cell(value: Any) -> Value:
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, str | int):
        return value
    return float(value)  # NumPy's, too: written so that reading gives the same number


def _value(text: str) -> Value:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
