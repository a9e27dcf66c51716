"""Verdicts: the paper's figures beside ours, and whether they are reproduced."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from paceline.errors import ConfigError
from paceline.spelling import suggest
from reproduction.statistics import Estimate, estimate

Answer: TypeAlias = Literal["yes", "no", "unclear", "not judged", "not measured"]

_COLUMNS = ("measure", "unit", "paper", "low", "high", "source", "note")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A figure that a paper gives, and what counts as reproduced.

    Attributes:
        measure: its name, the same as in the experiment's `measures`.
        unit: of all figures; empty for a pure number.
        paper: what the paper says, in its words, like "0.4 to 0.6"; empty if it says nothing.
        low: the least that counts as reproduced; no limit if infinite.
        high: the most that counts as reproduced; no limit if infinite.
        source: where the paper says it.
        note: why it may differ, for people.
    """

    measure: str
    unit: str
    paper: str
    low: float
    high: float
    source: str
    note: str

    @property
    def is_judged(self) -> bool:
        """Whether there is a limit; a figure without one is only shown."""
        return math.isfinite(self.low) or math.isfinite(self.high)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """An expectation beside what was measured here; `here` is None if no seed gave the measure."""

    expected: Expectation
    here: Estimate | None

    @property
    def answer(self) -> Answer:
        """Reproduced or not: yes if the 95 % interval lies within the limits, no if outside, unclear if across."""
        if self.here is None:
            return "not measured"
        if not self.expected.is_judged:
            return "not judged"
        if self.expected.low <= self.here.low and self.here.high <= self.expected.high:
            return "yes"
        if self.here.high < self.expected.low or self.expected.high < self.here.low:
            return "no"
        return "unclear"


def read_expectations(path: Path) -> list[Expectation]:
    """Read an ``expected.csv``; raises `ConfigError` that names the line."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != _COLUMNS:
                raise ConfigError(f"{path}: the columns must be {','.join(_COLUMNS)}")
            return [_expectation(row, f"{path}, line {reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def judge(expectations: Sequence[Expectation], measured: Sequence[Mapping[str, float]]) -> list[Verdict]:
    """Compare what each seed gave with what is expected; raises `ConfigError` for a measure that nobody expects."""
    known = [expected.measure for expected in expectations]
    for measures in measured:
        for name in measures:
            if name not in known:
                raise ConfigError(f"expected.csv has no measure {name!r}; {suggest(name, known)}")
    return [Verdict(expected=expected, here=_estimate(expected.measure, measured)) for expected in expectations]


def _estimate(measure: str, measured: Sequence[Mapping[str, float]]) -> Estimate | None:
    values = [measures[measure] for measures in measured if measure in measures]
    return estimate(values) if values else None


def _expectation(row: Mapping[str, str | None], where: str) -> Expectation:
    cells = {name: row.get(name) for name in _COLUMNS}
    if None in row or None in cells.values():
        raise ConfigError(f"{where}: must have {len(_COLUMNS)} cells: {','.join(_COLUMNS)}")
    texts = {name: (text or "").strip() for name, text in cells.items()}
    low, high = _limit(texts, "low", -math.inf, where), _limit(texts, "high", math.inf, where)
    if not texts["measure"] or not low <= high:
        raise ConfigError(f"{where}: needs a measure, and low ({low:g}) at most as large as high ({high:g})")
    return Expectation(
        measure=texts["measure"],
        unit=texts["unit"],
        paper=texts["paper"],
        low=low,
        high=high,
        source=texts["source"],
        note=texts["note"],
    )


def _limit(texts: Mapping[str, str], name: str, default: float, where: str) -> float:
    try:
        return float(texts[name]) if texts[name] else default
    except ValueError:
        raise ConfigError(f"{where}: {name} is {texts[name]!r}; it must be a number, or empty for no limit") from None
