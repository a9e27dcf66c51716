"""Writes measurements down: a table to read, Markdown for the docs, JSON with everything in it."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from repeats import Measurements

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
from reproduction.machine import cpu_model
from targets import Verdict

MISSING = "–"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A benchmark's table and how it was measured."""

    setting: str
    """As part of a sentence: where it ran, and how."""
    headings: Sequence[str]
    """With units; the first is the system's."""
    rows: Sequence[Sequence[str]]


def page_of_medians(
    measurements: Measurements,
    *,
    setting: str,
    system: str,
    columns: Mapping[str, str],
    formats: Mapping[str, Callable[[float | None], str]] = {},
) -> Page:
    """Make a table of medians, a row for each system.

    Args:
        system: heading of the first column.
        columns: headings of the others, by metric.
        formats: how to write a metric, if not with three digits that mean something.
    """
    return Page(
        setting=setting,
        headings=[system, *columns.values()],
        rows=[
            [name, *(formats.get(metric, significant)(measurements.median(name, metric)) for metric in columns)]
            for name in measurements.repeats
        ],
    )


def print_report(page: Page, measurements: Measurements, verdicts: Sequence[Verdict], console: Console) -> None:
    """Print the table, who failed, and the targets."""
    table = Table(*page.headings, title=f"{page.setting.capitalize()}, {_num_repeats(measurements)}")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in page.rows:
        table.add_row(*row)
    console.print(table)
    console.print(_contention(measurements))
    for name, reason in measurements.failures.items():
        console.print(f"not measured: {name}: {reason}", style="red", markup=False)
    if verdicts:
        targets = Table("Target", "limit", "measured", "met", title="Targets (ratios of medians)")
        for verdict in verdicts:
            targets.add_row(verdict.text, verdict.limit_text, _ratio(verdict.measured_ratio), verdict.met_text)
        console.print(targets)


def markdown(page: Page, measurements: Measurements, verdicts: Sequence[Verdict]) -> str:
    """The same tables for the docs, with where and when they were measured."""
    about = machine()
    lines = [
        f"Measured on {about['date']}, {about['cpu']}, {about['num_cores']} cores, Python {about['python']}; "
        f"{page.setting}, {_num_repeats(measurements)}. "
        f"{_contention(measurements)}",
        "",
        *_markdown_table(page.headings, page.rows),
    ]
    if measurements.failures:
        lines += ["", *(f"Not measured: {name}: {why}" for name, why in measurements.failures.items())]
    if verdicts:
        cells = [[v.text, v.limit_text, _ratio(v.measured_ratio), v.met_text] for v in verdicts]
        lines += ["", *_markdown_table(["Target", "Limit", "Measured", "Met"], cells)]
    return "\n".join(lines) + "\n"


def as_json(measurements: Measurements, verdicts: Sequence[Verdict], versions: Mapping[str, str | None]) -> str:
    """Everything: machine, versions, settings, each repeat, medians, targets."""
    systems = {
        name: {
            metric: {"median": statistics.median(values), "min": min(values), "max": max(values), "repeats": values}
            for metric, values in metrics.items()
        }
        for name, metrics in measurements.repeats.items()
    }
    document = {
        "machine": machine(),
        "versions": versions,
        "cpu_share_of_others": measurements.cpu_share_of_others,
        "settings": dataclasses.asdict(measurements.settings),
        "systems": systems,
        "failures": measurements.failures,
        "targets": [verdict.as_dict() for verdict in verdicts],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def machine() -> dict[str, object]:
    """What the figures depend on besides the code."""
    return {
        "cpu": cpu_model(),
        "num_cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def versions(packages: Sequence[str]) -> dict[str, str | None]:
    """Installed versions; None for what is not there."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def whole(value: float | None) -> str:
    """For tables: no decimals."""
    return MISSING if value is None else f"{value:,.0f}"


def significant(value: float | None) -> str:
    """For tables: three digits that mean something."""
    if value is None or abs(value) >= 100:
        return whole(value)
    return f"{value:.3g}"


def _num_repeats(measurements: Measurements) -> str:
    num_repeats = measurements.settings.num_repeats
    return f"medians of {num_repeats} interleaved repeats" if num_repeats > 1 else "one repeat"


def _contention(measurements: Measurements) -> str:
    return f"Other processes took {measurements.cpu_share_of_others:.0%} of the CPUs meanwhile."


def _ratio(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.2f}×" if value >= 0.1 else f"{value:.2g}×"


def _markdown_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *("---:" for _ in heads[1:])]
    return [f"| {' | '.join(row)} |" for row in (heads, rule, *cells)]
