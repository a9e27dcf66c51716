"""Verdicts in words: for tables, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from reproduction.statistics import Estimate
from reproduction.verdicts import Expectation, Verdict

HEADINGS = ("measure", "paper", "counts as reproduced", "here (± 95 %)", "reproduced?")
_NOTHING = "–"


def cells(verdict: Verdict) -> tuple[str, ...]:
    """Return a verdict's cells under `HEADINGS`."""
    expected = verdict.expected
    measure = f"{expected.measure}, {expected.unit}" if expected.unit else expected.measure
    here = _NOTHING if verdict.here is None else _estimate(verdict.here)
    return measure, expected.paper or _NOTHING, _limits(expected), here, verdict.answer


def tally(verdicts: Iterable[Verdict]) -> str:
    """Count in words how many of the judged figures are reproduced."""
    answers = [verdict.answer for verdict in verdicts if verdict.expected.is_judged]
    text = f"{answers.count('yes')} of {len(answers)} figures reproduced"
    others = [f"{answers.count(other)} {other}" for other in ("unclear", "not measured") if other in answers]
    return ", ".join([text, *others])


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts as a Markdown table, with their sources and notes."""
    headings = [*HEADINGS, "source and note"]
    lines = [_line(headings), "|" + "---|" * len(headings)]
    for verdict in verdicts:
        remarks = [text for text in (verdict.expected.source, verdict.expected.note) if text]
        lines.append(_line([*cells(verdict), ". ".join(remarks)]))
    return "\n".join(lines) + "\n"


def as_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain data; missing limits are None."""
    expected, here = verdict.expected, verdict.here
    return {
        "measure": expected.measure,
        "unit": expected.unit,
        "paper": expected.paper,
        "low": expected.low if math.isfinite(expected.low) else None,
        "high": expected.high if math.isfinite(expected.high) else None,
        "here": None if here is None else here.mean,
        "half_width": None if here is None else here.half_width,
        "seeds": 0 if here is None else here.count,
        "reproduced": verdict.answer,
        "source": expected.source,
        "note": expected.note,
    }


def as_csv(verdicts: Sequence[Verdict]) -> str:
    """Write verdicts as CSV, one line each."""
    rows = [as_data(verdict) for verdict in verdicts]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["measure"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _estimate(here: Estimate) -> str:
    return number(here.mean) if here.half_width is None else f"{number(here.mean)} ± {number(here.half_width)}"


def _limits(expected: Expectation) -> str:
    if not expected.is_judged:
        return _NOTHING
    if math.isinf(expected.low):
        return f"≤ {number(expected.high)}"
    if math.isinf(expected.high):
        return f"≥ {number(expected.low)}"
    return f"{number(expected.low)} to {number(expected.high)}"


def number(value: float) -> str:
    """Write a figure with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
