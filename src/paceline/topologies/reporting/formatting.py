"""How numbers and names are written in lines and tables, the same for all topologies.

Names and reasons come from the network: whatever could act on a terminal or turn the text around is made visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from paceline.learning.scores import is_ratio
from paceline.topologies.reporting.tables import Column, Kind, Value, metric_title

JOULES_PER_WATT_HOUR = 3600.0


def printable(text: str) -> str:
    """Write out control and formatting characters, e.g. an escape as ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def format_seconds(seconds: float) -> str:
    """Write a duration with three digits: ``0.042 s``, ``1.25 s``, ``83.1 s``, ``12 min 5 s``, ``3 h 20 min``."""
    if abs(seconds) < 1:
        return f"{seconds:.3f} s"
    if abs(seconds) < 100:
        return f"{seconds:.2f} s" if abs(seconds) < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def format_ratio(ratio: float) -> str:
    """Write a ratio in per cent: ``87.5 %``."""
    return f"{round(100 * ratio, 1) or 0.0:.1f} %".replace("-", "−")


def format_lateness(ratio: float) -> str:
    """Write how far past a deadline something was: ``3.0 % early``, ``on time``, ``2.1 % late``."""
    percent = round(100 * ratio, 1)
    return f"{abs(percent):.1f} % {'late' if percent > 0 else 'early'}" if percent else "on time"


def format_bytes(number: float) -> str:
    """Write an amount of data with three digits: ``812 B``, ``1.25 MB``."""
    return _scaled(number, ("B", "kB", "MB", "GB", "TB"))


def format_energy(joules: float) -> str:
    """Write joules as what a meter on the wall counts: ``8.12 mWh``, ``1.25 Wh``, ``83.1 kWh``."""
    return _scaled(1000 * joules / JOULES_PER_WATT_HOUR, ("mWh", "Wh", "kWh", "MWh"))


def format_grams(grams: float) -> str:
    """Write a mass with three digits: ``8.12 mg``, ``1.25 g``, ``83.1 kg``."""
    return _scaled(1000 * grams, ("mg", "g", "kg", "t"))


def format_money(amount: float) -> str:
    """Write a sum in whatever the prices are in: ``1,234.50``."""
    return f"{amount:,.2f}"


def format_number(number: float) -> str:
    """Write any other number with four digits."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def format_metric(name: str, value: float) -> str:
    """Write a metric of this name, in per cent or as a number."""
    return format_ratio(value) if is_ratio(name) else format_number(value)


def describe_metrics(metrics: Mapping[str, float | None]) -> list[str]:
    """Write metrics that are known with their names: ``accuracy 96.4 %``, ``mae 43.2``."""
    known = {name: value for name, value in metrics.items() if value is not None}
    return [f"{printable(metric_title(name))} {format_metric(name, value)}" for name, value in known.items()]


def describe_after(metrics: Mapping[str, float | None], what: str) -> str:
    """Write metrics that are known, and after what: ``accuracy 96.4 % after 10 rounds``."""
    known = ", ".join(describe_metrics(metrics))
    return f"{known} after {what}" if known else what


def format_known(value: float | None, write: Callable[[float], str]) -> str:
    """Write a value, or a dash if there is none."""
    return "–" if value is None else write(value)


def format_count(number: int, thing: str) -> str:
    """Write a number with its noun: ``1 learner``, ``12,340 samples``."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def format_names(names: Iterable[str], limit: int = 5) -> str:
    """Write names with commas between them, and how many more there are."""
    known = [printable(name) for name in names]
    shown = ", ".join(known[:limit])
    return shown if len(known) <= limit else f"{shown} and {len(known) - limit:,} more"


_WRITERS: dict[Kind, Callable[[Any], str]] = {
    "text": lambda value: printable(str(value)),
    "count": lambda value: f"{value:,}",
    "number": format_number,
    "seconds": format_seconds,
    "ratio": format_ratio,
    "lateness": format_lateness,
    "bytes": format_bytes,
    "joules": format_energy,
    "grams": format_grams,
    "money": format_money,
    "bool": lambda value: "yes" if value else "no",
}


def format_value(value: Value, column: Column) -> str:
    """Write a value of a table as its column's kind says; a dash if it is not known."""
    if value is None:
        return "–"
    writer = _WRITERS["text" if isinstance(value, str) else column.kind]
    return writer(value) + (f"{'' if column.unit.startswith('/') else ' '}{column.unit}" if column.unit else "")


def setting(settings: dict[str, Any], section: str, key: str) -> Any:
    """Look up a value of a resolved job; None if it has none."""
    table = settings.get(section)
    return table.get(key) if isinstance(table, dict) else None


def named(settings: dict[str, Any], section: str) -> str:
    """Name of the model, data, policy or aggregation of a resolved job; a dash if it has none."""
    names = (setting(settings, section, key) for key in ("name", "import", "path", "policy", "method"))
    return next((printable(name) for name in names if isinstance(name, str)), "–")


def _scaled(number: float, units: Sequence[str]) -> str:
    """Write a number in the first of units, each 1000 of the one before, that needs no more than three digits."""
    for unit in units:
        if abs(number) < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{1000 * number:,.0f} {units[-1]}"
