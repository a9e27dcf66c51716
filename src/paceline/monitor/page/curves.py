"""Charts of many lines in one: thin ones of the peers, and a thick one of what they have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from paceline.monitor.page.charts import Chart, TimeAxis, axis_name, framed, ticks, whole_ticks
from paceline.monitor.page.markup import Markup, element, joined, number, percent

_MAX_POINTS = 400
_MAX_DOTS = 60
_LEAST_SPAN = 1e-9


class Mark(msgspec.Struct, frozen=True):
    """A value at a place: seconds, or the number of an epoch; `tip` is told on hover, of a thick line only."""

    x: float
    value: float
    tip: str = ""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A line through marks, in order; a thin one tells its `tip` on hover wherever it is."""

    marks: Sequence[Mark]
    tip: str = ""
    is_thick: bool = False


def draw_curves(chart: Chart, curves: Sequence[Curve], *, is_log: bool = False) -> Markup:
    """The chart, over seconds if that is what it goes over, else over whole numbers; at least one curve has a mark.

    Args:
        is_log: whether the values are shown by their logarithms; they are above 0 then.
    """
    curves = [msgspec.structs.replace(curve, marks=_thinned(curve.marks)) for curve in curves if curve.marks]
    places = [mark.x for curve in curves for mark in curve.marks]
    values = [mark.value for curve in curves for mark in curve.marks]
    rows = _log_rows(min(values), max(values)) if is_log else _rows(chart, min(values), max(values))
    scale = _Scale(min(places), max(places), rows, is_log=is_log)
    grid = []
    for row in rows:
        y = percent(scale.y(row))
        grid.append(element("line", class_="grid", x1="0", x2="100%", y1=y, y2=y))
        grid.append(element("text", chart.say(row), class_="y", x="-8", y=y, dy="4"))
    if chart.over == "seconds":
        grid += TimeAxis(min(places), max(places)).marks()
    else:
        for place in whole_ticks(int(min(places)), int(max(places))):
            grid.append(element("text", str(place), class_="x", x=percent(scale.x(place)), y="100%", dy="18"))
        grid.append(axis_name(chart.over))
    lines = [_line(curve, scale) for curve in sorted(curves, key=lambda curve: curve.is_thick)]
    stretched = element("svg", *lines, viewBox="0 0 1000 1000", preserveAspectRatio="none", width="100%", height="100%")
    dots = [_dots(curve, scale) for curve in curves if curve.is_thick]
    return framed(chart, [*grid, stretched, *dots])


class _Scale:
    """Where places and values are, as ratios of the drawing."""

    def __init__(self, first: float, last: float, rows: Sequence[float], *, is_log: bool) -> None:
        self._first, self._width = first, last - first
        self._is_log = is_log
        self._low, self._high = (math.log(row) if is_log else row for row in (rows[0], rows[-1]))

    def x(self, place: float) -> float:
        return (place - self._first) / self._width if self._width > _LEAST_SPAN else 0.5

    def y(self, value: float) -> float:
        height = math.log(value) if self._is_log else value
        return 1 - (height - self._low) / (self._high - self._low)


def _thinned(marks: Sequence[Mark]) -> Sequence[Mark]:
    """Every so many of them, with the last."""
    return marks[::-1][:: math.ceil(len(marks) / _MAX_POINTS)][::-1]


def _rows(chart: Chart, low: float, high: float) -> list[float]:
    rows = ticks(max(low, chart.floor), min(high, chart.ceiling))
    return [row for row in rows if chart.floor - 1e-9 <= row <= chart.ceiling + 1e-9] or rows


def _log_rows(low: float, high: float) -> list[float]:
    """Powers of ten around the values, and where there are few of them, their halves and fifths as well."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    if last - first > 2:
        step = math.ceil((last - first) / 6)
        return [10.0**power for power in range(last, first - step, -step)][::-1]
    rows = [factor * 10.0**power for power in range(first, last) for factor in (1, 2, 5)] + [10.0**last]
    start = max((row for row in rows if row <= low * (1 + 1e-9)), default=rows[0])
    end = min((row for row in rows if row >= high * (1 - 1e-9) and row > start), default=rows[-1])
    return [row for row in rows if start <= row <= end]


def _line(curve: Curve, scale: _Scale) -> Markup:
    points = " ".join(f"{number(1000 * scale.x(m.x))},{number(1000 * scale.y(m.value))}" for m in curve.marks)
    if curve.is_thick:
        return element("polyline", class_="line", points=points)
    near = element("polyline", class_="near", points=points)
    line = element("polyline", class_="thin", points=points)
    return element("g", element("title", curve.tip), near, line, class_="tip")


def _dots(curve: Curve, scale: _Scale) -> Markup:
    marks = (
        element(
            "g",
            element("title", mark.tip),
            element("circle", class_="dot", cx=percent(scale.x(mark.x)), cy=percent(scale.y(mark.value)), r="3.5"),
            class_="tip",
        )
        for mark in curve.marks
    )
    return element("g", joined(*marks), class_="dots" if len(curve.marks) <= _MAX_DOTS else "dots hidden")
