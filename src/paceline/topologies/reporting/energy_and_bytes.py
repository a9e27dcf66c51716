"""What devices used up: bytes, processor time and energy, and the table and section that show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from paceline.devices import energy
from paceline.topologies.reporting.formatting import format_bytes, format_names
from paceline.topologies.reporting.sections import AnySection, TableSection, Tile
from paceline.topologies.reporting.tables import Table, Value, columns

_Number = TypeVar("_Number", int, float)

COLUMNS = columns(
    *("learner text", "bytes_sent bytes sent", "bytes_received bytes received"),
    *("cpu_seconds seconds processor time", "joules joules energy", "grams grams CO₂e"),
    "power text energy computed by",
)
TOTALS = COLUMNS[1:6]
"""Columns whose sums are headline figures."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What was used up, as far as it was reported; None for what nobody reported.

    Attributes:
        cpu_seconds: processor time, which took `joules`.
    """

    bytes_sent: int | None = None
    bytes_received: int | None = None
    cpu_seconds: float | None = None
    joules: float | None = None

    @classmethod
    def total(cls, parts: Iterable[Any]) -> Usage:
        """Sum over anything with these four fields."""
        listed = list(parts)
        return cls(
            bytes_sent=_total(part.bytes_sent for part in listed),
            bytes_received=_total(part.bytes_received for part in listed),
            cpu_seconds=_total(part.cpu_seconds for part in listed),
            joules=_total(part.joules for part in listed),
        )

    def figures(self, grams_per_kwh: float) -> dict[str, Value]:
        """Values of the columns `TOTALS` by name; the carbon is computed by the intensity of the grid."""
        grams = None if self.joules is None else energy.grams_co2(self.joules, grams_per_kwh)
        return {**msgspec.structs.asdict(self), "grams": grams}


def usage_table(
    used: Mapping[str, Usage], powers: Mapping[str, Mapping[str, Any] | None], grams_per_kwh: float
) -> Table:
    """Make the table with a row per device; `powers` are what their energy is computed by."""
    rows = [
        (name, *usage.figures(grams_per_kwh).values(), _describe_power(powers.get(name)))
        for name, usage in used.items()
    ]
    return Table("usage", COLUMNS, rows)


def usage_section(tables: Mapping[str, Table], counted: str) -> list[AnySection]:
    """Show what each device used.

    Args:
        counted: the time the figures are of, as the end of a sentence.
    """
    records = tables["usage"].records()
    reported = [one for one in records if any(one[column.name] is not None for column in TOTALS)]
    silent = [one["learner"] for one in records if one not in reported]
    if not records:
        return []
    (total,) = tables["summary"].records()
    caption = f"What devices used {counted}; a power model is an assumption, not a measurement."
    if total["joules"]:
        caption += (
            f" Each kWh is taken to emit {total['grams'] / energy.kwh(total['joules']):.4g} g of CO₂ equivalents."
        )
    if silent:
        caption += f" No figures from {format_names(silent)}: devices that join over the network keep theirs."
    totals = ("all", *(total[column.name] for column in TOTALS), "")
    return [
        TableSection(title="Energy and bytes", group="Energy and bytes", table="usage", caption=caption, total=totals)
    ]


def usage_tiles(summary: dict[str, Any]) -> tuple[Tile, ...]:
    """Bytes and energy, where devices report them, and time."""
    clock, received = summary["clock"], summary["bytes_received"]
    used = (
        Tile("bytes_sent", f"by all that report it; {format_bytes(received)} received" if received is not None else ""),
        Tile("joules", "of all that report it"),
        Tile("grams", "emitted to make that energy"),
    )
    known = (tile for tile in used if summary[tile.column] is not None)
    return (*known, Tile("seconds", f"on the {clock} clock" if clock else ""))


def _describe_power(power: Mapping[str, Any] | None) -> str | None:
    """Write what a device's energy is computed by: ``0.9 W per busy core``."""
    if not power:
        return None
    known = {"busy_watts": "W per busy core", "idle_watts": "W all the time", "joules_per_byte": "J per byte"}
    parts = []
    if power.get("source") == "codecarbon":
        parts, known = ["CodeCarbon"], {"joules_per_byte": "J per byte"}
    given = {key: power.get(key) for key in known}
    parts += [f"{value:g} {known[key]}" for key, value in given.items() if isinstance(value, int | float) and value]
    return ", ".join(parts) or "nothing is counted"


def _total(numbers: Iterable[_Number | None]) -> _Number | None:
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known else None
