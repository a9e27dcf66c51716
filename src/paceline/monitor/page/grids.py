"""Grids of learners by rounds or epochs: a cell is darker, the more it holds, with digits where there is room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from paceline.monitor.page.charts import ROW_PIXELS, Drawing, axis_name, framed, row_name, whole_ticks
from paceline.monitor.page.markup import Markup, element, percent

_MAX_COLUMNS = 120
_MAX_DIGIT_COLUMNS = 26


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What a learner did in a round.

    Attributes:
        shade: from 0 for little to 1 for much.
        text: a few digits or a sign.
        tip: told on hover.
        kind: `bad` cells have a colour and a pattern of their own.
    """

    shade: float
    text: str
    tip: str
    kind: Literal["", "bad"] = ""


class Grid(Drawing, frozen=True, kw_only=True):
    """A grid of cells; rows and rounds that hold nothing have no cell.

    Attributes:
        rows: the name of each row and its cells by round.
        rounds: the columns.
        over: what they are; a click on one of the rounds picks it.
    """

    rows: Sequence[tuple[str, dict[int, Cell]]]
    rounds: Sequence[int]
    over: str = "round"


def draw_grid(grid: Grid) -> Markup:
    """The grid as a figure; with very many rounds a column stands for a few, and shows the worst or highest of them."""
    step = math.ceil(len(grid.rounds) / _MAX_COLUMNS)
    columns = [grid.rounds[start : start + step] for start in range(0, len(grid.rounds), step)]
    note = f"; each cell is the highest of {step} {grid.over}s" if step > 1 else ""
    marks: list[Markup] = []
    for row, (name, cells) in enumerate(grid.rows):
        marks.append(row_name(name, row))
        for column, rounds in enumerate(columns):
            known = [number for number in rounds if number in cells]
            if known:
                number = max(known, key=lambda one: (cells[one].kind, cells[one].shade))
                picked = number if grid.over == "round" else None
                marks.append(_cell(cells[number], picked, row, column, len(columns)))
    for number in whole_ticks(grid.rounds[0], grid.rounds[-1], 12):
        x = percent(((number - grid.rounds[0]) // step + 0.5) / len(columns))
        marks.append(element("text", str(number), class_="x", x=x, y="100%", dy="18"))
    marks.append(axis_name(grid.over))
    return framed(grid, marks, more_note=note, num_rows=len(grid.rows), style=_density(len(columns), grid))


def _cell(cell: Cell, picked: int | None, row: int, column: int, num_columns: int) -> Markup:
    place = {"x": percent(column / num_columns), "width": percent(1 / num_columns)}
    top = str(row * ROW_PIXELS + 1)
    back = element(
        "rect",
        class_=f"cell {cell.kind}".rstrip(),
        y=top,
        height=str(ROW_PIXELS - 2),
        rx="4",
        fill_opacity=None if cell.kind else round(0.1 + 0.5 * min(max(cell.shade, 0.0), 1.0), 2),
        **place,
    )
    middle = percent((column + 0.5) / num_columns)
    text = element("text", cell.text, class_="digits", x=middle, y=str(row * ROW_PIXELS + ROW_PIXELS // 2), dy="4")
    title = element("title", cell.tip)
    return element("g", title, back, text, class_="tip", data_round=picked)


def _density(num_columns: int, grid: Grid) -> str:
    """Whether digits fit into the cells: always, on wide screens only, or never."""
    if num_columns > _MAX_DIGIT_COLUMNS:
        return "heat bare"
    longest = max((len(cell.text) for _, cells in grid.rows for cell in cells.values()), default=0)
    return "heat" if longest * num_columns <= 26 else "heat wide"
