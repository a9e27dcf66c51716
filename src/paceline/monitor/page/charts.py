"""Charts as SVG that keeps its text size at any width: a line or columns over rounds, and what other charts share.

All horizontal places are in per cent of the drawing, so that it stretches; labels stand outside of it, in the padding
that the style sheet gives. Whatever has the class ``tip`` tells its title on hover.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from paceline.monitor.page.markup import Markup, element, joined, number, percent

ROW_PIXELS = 28
_UNITS = ((10_800.0, 3600.0, "hours"), (600.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))  # from so many seconds on
_HEIGHT_PIXELS = 190
_MAX_POINTS = 400
_MAX_DOTS = 60
_MAX_NAME_LENGTH = 16


class Point(msgspec.Struct, frozen=True):
    """A value, None if there is none, at a round (or whatever the chart goes over).

    Attributes:
        tip: told on hover.
        is_bad: drawn with a colour and a pattern of its own.
    """

    x: int
    value: float | None
    tip: str
    is_bad: bool = False


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """What every drawing says of itself.

    Attributes:
        name: unique on the page.
        caption: the title that is shown.
        note: shown beside the title, such as the last value.
        description: for those who cannot see it.
    """

    name: str
    caption: str
    note: str
    description: str


class Chart(Drawing, frozen=True, kw_only=True):
    """What a chart counts in.

    Attributes:
        say: how a value is written on the axis.
        floor: the least that the axis can show.
        ceiling: the most that the axis can show.
        over: what it goes over; a click on one of the rounds picks it.
    """

    say: Callable[[float], str]
    floor: float = -math.inf
    ceiling: float = math.inf
    over: str = "round"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers, about so many, that reach from at most `low` to at least `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / max(count - 1, 1)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def whole_ticks(first: int, last: int, count: int = 8) -> list[int]:
    """Round whole numbers, at most so many, from `first` to `last`; the two themselves if there is room for all."""
    step = next(
        factor * 10**power
        for power in range(20)
        for factor in (1, 2, 5)
        if (last - first) // (factor * 10**power) < count
    )
    return list(range(first + -first % step, last + 1, step))


class Axis:
    """Where values are along a drawing, as ratios of it, and how they are told.

    Args:
        start: of the drawing; it goes to `end`.
        say: how a value is written, in `unit`.
        label: what they are.
        num_ticks: about so many are written.
    """

    def __init__(
        self,
        start: float,
        end: float,
        say: Callable[[float], str],
        *,
        unit: float = 1.0,
        label: str = "",
        num_ticks: int = 5,
    ) -> None:
        self._start, self._end = start, end
        self._say, self._unit, self._label, self._num_ticks = say, unit, label, num_ticks

    def x(self, value: float) -> float:
        """The place of a value; one that is outside is put to the end."""
        return min(max((value - self._start) / ((self._end - self._start) or 1.0), 0.0), 1.0)

    def marks(self, *, has_lines: bool = False) -> list[Markup]:
        """The labels below the drawing, and upright lines if it has none of its own."""
        marks = []
        for tick in ticks(self._start / self._unit, self._end / self._unit, self._num_ticks):
            if self._start <= tick * self._unit <= self._end:
                x = percent(self.x(tick * self._unit))
                if has_lines:
                    marks.append(element("line", class_="grid", x1=x, x2=x, y1="0", y2="100%"))
                marks.append(element("text", self._say(tick), class_="x", x=x, y="100%", dy="18"))
        return [*marks, axis_name(self._label)]


class TimeAxis(Axis):
    """Where times are, told in seconds, minutes or hours."""

    def __init__(self, start: float, end: float) -> None:
        unit, label = next((unit, label) for least, unit, label in _UNITS if end >= least)
        super().__init__(start, end, "{:g}".format, unit=unit, label=label, num_ticks=9)


def axis_name(label: str) -> Markup:
    """What a drawing goes over, below its right end."""
    return element("text", label, class_="axis", x="100%", y="100%", dy="34")


def line_chart(chart: Chart, points: Sequence[Point]) -> Markup:
    """A line through the values; a gap where there is none."""
    step = math.ceil(len(points) / _MAX_POINTS)
    points = points[::-1][::step][::-1]
    known = [point.value for point in points if point.value is not None]
    axis = ticks(max(min(known), chart.floor), min(max(known), chart.ceiling))
    axis = [tick for tick in axis if chart.floor - 1e-9 <= tick <= chart.ceiling + 1e-9] or axis
    scale = _Scale(points, axis)
    stretches = _stretches(points)
    lines = [
        joined(
            element("polygon", class_="area", points=scale.path(stretch, is_closed=True)),
            element("polyline", class_="line", points=scale.path(stretch)),
        )
        for stretch in stretches
    ]
    stretched = element("svg", *lines, viewBox="0 0 1000 1000", preserveAspectRatio="none", width="100%", height="100%")
    dots = "dots" if len(points) <= _MAX_DOTS else "dots hidden"
    marks = [_column(chart, scale, point, _dot(scale, point)) for point in points]
    note = f"; every {step}th {chart.over} is shown" if step > 1 else ""
    return _drawing(chart, scale, note, stretched, element("g", *marks, class_=dots))


def column_chart(chart: Chart, points: Sequence[Point]) -> Markup:
    """A column from zero for each value, and a line at zero."""
    step = math.ceil(len(points) / _MAX_POINTS)
    groups = (points[start : start + step] for start in range(0, len(points), step))
    points = [max(group, key=lambda point: -math.inf if point.value is None else point.value) for group in groups]
    known = [point.value for point in points if point.value is not None]
    scale = _Scale(points, ticks(min(0.0, *known), max(0.0, *known)), is_columns=True)
    marks = [_column(chart, scale, point, _bar(scale, point)) for point in points]
    zero = percent(scale.y(0.0))
    line = element("line", class_="zero", x1="0", x2="100%", y1=zero, y2=zero)
    note = f"; each column is the highest of {step}" if step > 1 else ""
    return _drawing(chart, scale, note, element("g", *marks), line)


class _Scale:
    """Where rounds and values are, as ratios of the drawing."""

    def __init__(self, points: Sequence[Point], axis: list[float], is_columns: bool = False) -> None:
        self.axis = axis
        self.first, self.last = first, last = points[0].x, points[-1].x
        step = (last - first) / max(len(points) - 1, 1) or 1
        margin = step / 2 if is_columns or first == last else 0
        self.low, self.width = first - margin, last - first + 2 * margin
        self.step = step / self.width

    def x(self, place: int) -> float:
        return (place - self.low) / self.width

    def y(self, value: float) -> float:
        return 1 - (value - self.axis[0]) / (self.axis[-1] - self.axis[0])

    def path(self, stretch: Sequence[tuple[int, float]], is_closed: bool = False) -> str:
        places = [(self.x(x), self.y(value)) for x, value in stretch]
        if is_closed:
            places = [(places[0][0], 1.0), *places, (places[-1][0], 1.0)]
        return " ".join(f"{number(1000 * x)},{number(1000 * y)}" for x, y in places)


def _stretches(points: Sequence[Point]) -> list[list[tuple[int, float]]]:
    stretches: list[list[tuple[int, float]]] = [[]]
    for point in points:
        if point.value is not None:
            stretches[-1].append((point.x, point.value))
        elif stretches[-1]:
            stretches.append([])
    return [stretch for stretch in stretches if stretch]


def _column(chart: Chart, scale: _Scale, point: Point, mark: Markup | None) -> Markup:
    left, right = (min(max(scale.x(point.x) + side * scale.step / 2, 0), 1) for side in (-1, 1))
    hit = element("rect", class_="hit", x=percent(left), y="0", width=percent(right - left), height="100%")
    picked = point.x if chart.over == "round" else None
    return element("g", element("title", point.tip), hit, mark, class_="tip", data_round=picked)


def _dot(scale: _Scale, point: Point) -> Markup | None:
    if point.value is None:
        return None
    return element("circle", class_="dot", cx=percent(scale.x(point.x)), cy=percent(scale.y(point.value)), r="3.5")


def _bar(scale: _Scale, point: Point) -> Markup | None:
    if point.value is None:
        return None
    top, bottom = sorted((scale.y(point.value), scale.y(0.0)))
    width = 0.66 * scale.step
    return element(
        "rect",
        class_="column bad" if point.is_bad else "column",
        x=percent(scale.x(point.x) - width / 2),
        y=percent(top),
        width=percent(width),
        height=percent(max(bottom - top, 0.004)),
        rx="2",
    )


def _drawing(chart: Chart, scale: _Scale, note: str, *content: Markup) -> Markup:
    grid = []
    for tick in scale.axis:
        y = percent(scale.y(tick))
        grid.append(element("line", class_="grid", x1="0", x2="100%", y1=y, y2=y))
        grid.append(element("text", chart.say(tick), class_="y", x="-8", y=y, dy="4"))
    for place in whole_ticks(scale.first, scale.last):
        x = percent(scale.x(place))
        grid.append(element("text", str(place), class_="x", x=x, y="100%", dy="18"))
    return framed(chart, [*grid, axis_name(chart.over), *content], more_note=note)


def framed(
    drawing: Drawing,
    content: Iterable[Markup],
    *,
    more_note: str = "",
    num_rows: int | None = None,
    legend: Markup | None = None,
    style: str | None = None,
) -> Markup:
    """A drawing as a figure with its title and note.

    Args:
        content: of the drawing.
        more_note: is added to its note.
        num_rows: that have a name to the left and a height of their own; None for a chart without rows.
        legend: stands above the drawing.
        style: the class of the drawing.
    """
    drawn = element(
        "svg",
        element("title", drawing.caption, id=f"{drawing.name}-title"),
        element("desc", drawing.description, id=f"{drawing.name}-about"),
        *content,
        role="img",
        aria_labelledby=f"{drawing.name}-title {drawing.name}-about",
        class_=style,
        width="100%",
        height=str(_HEIGHT_PIXELS if num_rows is None else num_rows * ROW_PIXELS),
    )
    caption = element("figcaption", element("b", drawing.caption), element("span", drawing.note + more_note))
    plot = element("div", drawn, class_="plot" if num_rows is None else "plot named")
    return element("figure", caption, legend, plot, class_="card", id=drawing.name)


def row_name(name: str, row: int) -> Markup:
    """The name of a row, to the left of it; one that is too long is told in full on hover."""
    shown = name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1] + "…"
    label = element("text", shown, x="-10", y=str(row * ROW_PIXELS + ROW_PIXELS // 2), dy="4")
    return element("g", element("title", name), label, class_="tip y")
