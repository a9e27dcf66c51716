"""A CSV file: a line of names, then rows of numbers, with labels that may be texts."""

from __future__ import annotations

import array
import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TextIO

import numpy as np

from paceline.errors import ConfigError, in_one_line, one_line
from paceline.learning.shards import Array
from paceline.learning.sources.tabular import Rows, TabularFormat, split_names

_DELIMITERS = (",", ";", "\t")
_TRUTH = {"true": 1.0, "false": 0.0}


class CsvFormat(TabularFormat):
    """Rows as text; the delimiter is the comma, semicolon or tab that the first line has most of."""

    description: ClassVar[str] = "a .csv file, or a folder with train.csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    def read_rows(self, file: Path, target: Sequence[str]) -> Rows:
        try:
            with file.open(encoding="utf-8-sig", newline="") as opened:
                return _read(file, opened, target)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"{file}: not a readable .csv file: {in_one_line(error)}") from error


def _read(file: Path, opened: TextIO, target: Sequence[str]) -> Rows:
    names, rows = _rows(file, opened)
    features = split_names(file, names, target)
    places, target_places = [names.index(name) for name in features], [names.index(name) for name in target]
    values, targets = array.array("f"), [list[str]() for _ in target]
    for line, row in rows:
        try:
            values.extend([_number(row[place]) for place in places])
        except (ValueError, OverflowError):
            raise ConfigError(_wrong_value(file, line, names, row, places)) from None
        for column, place in zip(targets, target_places, strict=True):
            column.append(row[place].strip())
    if not values:
        raise ConfigError(f"{file}: there are no rows below the line of names")
    for name, column in zip(target, targets, strict=True):
        if not all(column):
            raise ConfigError(f"{file}: column {name!r} is empty in row {column.index('') + 1}; a label is needed")
    x = np.frombuffer(values, np.float32).reshape(-1, len(features))
    return Rows(features, x, [_texts_or_numbers(column) for column in targets])


def _rows(file: Path, opened: TextIO) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns, and the rows with the numbers of their lines."""
    first = opened.readline()
    opened.seek(0)
    reader = csv.reader(opened, delimiter=max(_DELIMITERS, key=first.count))
    names = [name.strip() for name in next(reader, [])]

    def rows() -> Iterator[tuple[int, list[str]]]:
        for row in reader:
            if row and len(row) != len(names):
                raise ConfigError(
                    f"{file}: line {reader.line_num} has {len(row)} values, and the first line {len(names)} names"
                )
            if row:
                yield reader.line_num, row

    return names, rows()


def _number(text: str) -> float:
    number = _TRUTH.get(text.strip().lower())
    number = float(text) if number is None else number
    if not math.isfinite(number) or abs(number) > np.finfo(np.float32).max:
        raise ValueError(text)
    return number


def _wrong_value(file: Path, line: int, names: Sequence[str], row: Sequence[str], places: Sequence[int]) -> str:
    """Say which value of a row is no number."""
    for place in places:
        try:
            _number(row[place])
        except (ValueError, OverflowError):
            what = f"is {one_line(row[place])[:80]!r}" if row[place].strip() else "is empty"
            break
    return (
        f"{file}: line {line}: column {names[place]!r} {what}; features are finite numbers: encode texts and missing "
        "values as such, or leave the column out of the file"
    )


def _texts_or_numbers(column: Sequence[str]) -> Array:
    try:
        return np.array([_TRUTH.get(text.lower()) if text.lower() in _TRUTH else float(text) for text in column])
    except ValueError:
        return np.array(column)
