"""A Gantt chart: where each learner was over time, and when it worked there, or on what; or what it used in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.monitor.page.charts import ROW_PIXELS, Axis, Drawing, framed, row_name
from paceline.monitor.page.markup import Markup, element, percent

MAX_BLOCKS = 8_000  # about 2 MB of the page
_NUM_COLOURS = 8  # of the style sheet
_MIN_LABELLED = 0.02  # of the width


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A time that a learner spent in a job, in seconds, or an amount of what it used.

    Attributes:
        job: its place in the chart's jobs, or in whatever it shows by colour.
        kind: that it was there, that it worked there, that it worked for nothing; or, where it is all there is to show,
            what it did.
        tip: told on hover.
    """

    start: float
    end: float
    job: int
    kind: Literal["stay", "work", "bad", "deed"]
    tip: str


class Gantt(Drawing, frozen=True, kw_only=True):
    """A chart with a lane per learner.

    Attributes:
        lanes: the name of each learner and its blocks; those drawn later cover those before.
        jobs: their names.
        axis: along which blocks are.
    """

    lanes: Sequence[tuple[str, Sequence[Block]]]
    jobs: Sequence[str]
    axis: Axis


def job_mark(index: int, name: str) -> Markup:
    """A job's colour, its number, for eyes that do not tell colours apart, and its name."""
    swatch = element(
        "svg",
        element("rect", class_=_colour(index), width="100%", height="100%", rx="3"),
        element("text", str(index + 1), class_="job-number", x="50%", y="50%", dy="3.5"),
        class_="job-mark",
        width="18",
        height="15",
        aria_hidden="true",
    )
    return element("span", swatch, " ", element("bdi", name))


def draw_gantt(gantt: Gantt) -> Markup:
    """The chart as a figure with its legend."""
    marks = gantt.axis.marks(has_lines=True)
    for row, (name, blocks) in enumerate(gantt.lanes):
        marks.append(row_name(name, row))
        marks += [_block(block, row, gantt.axis) for block in blocks]
    legend = element("ul", *(element("li", job_mark(*job)) for job in enumerate(gantt.jobs)), class_="legend")
    return framed(gantt, marks, num_rows=len(gantt.lanes), legend=legend)


def _block(block: Block, row: int, axis: Axis) -> Markup:
    left, right = axis.x(block.start), axis.x(block.end)
    is_tall = block.kind in ("stay", "deed")
    top, height = (2, ROW_PIXELS - 4) if is_tall else (14, 9)
    shape = element(
        "rect",
        class_=f"block {block.kind} {_colour(block.job)}",
        x=percent(left),
        y=str(row * ROW_PIXELS + top),
        width=percent(right - left),
        height=str(height),
        rx="3" if is_tall else "2",
    )
    number = None
    if is_tall and right - left >= _MIN_LABELLED:
        y = str(row * ROW_PIXELS + 11)
        style = "job-label" if block.kind == "stay" else "job-label on"
        number = element("text", str(block.job + 1), class_=style, x=percent(left), dx="4", y=y)
    return element("g", element("title", block.tip), shape, number, class_="tip")


def _colour(job: int) -> str:
    return f"job-{job % _NUM_COLOURS + 1}"
