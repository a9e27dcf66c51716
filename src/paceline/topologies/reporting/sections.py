"""Sections of a report: which figures are drawn from which columns of which tables. Plain data, no drawing."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import msgspec

from paceline.topologies.reporting.tables import Value

Look: TypeAlias = Literal["full", "back", "front", "hatched"]
"""How a span of a `Gantt` is drawn: as its whole row, pale behind others, narrow before them, or as trouble."""


class Section(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all sections.

    Attributes:
        title: what is shown.
        table: name of the table it is drawn from.
        caption: one sentence that says what good looks like.
        group: heading over this section and its neighbours of the same group.
        note: a figure worth a glance, beside the title.
        details: columns shown for what the pointer is over.
    """

    title: str
    table: str
    caption: str = ""
    group: str = ""
    note: str = ""
    is_half: bool = False
    details: tuple[str, ...] = ()

    _fields_of_columns: ClassVar[tuple[str, ...]] = ()

    def used_columns(self) -> set[str]:
        """Names of the table's columns that this section needs."""
        named = [getattr(self, field) for field in self._fields_of_columns]
        return {*self.details, *(name for one in named for name in ([one] if isinstance(one, str) else one or ()))}

    def used_tables(self) -> dict[str, set[str]]:
        """Names of all tables that this section needs, with the columns of each."""
        return {self.table: self.used_columns()}


class Tile(msgspec.Struct, frozen=True):
    """A headline figure: a column of the only row of its table, and what else is worth saying."""

    column: str
    note: str = ""


class Tiles(Section, frozen=True, kw_only=True, tag="tiles"):
    """Headline figures in large type."""

    tiles: tuple[Tile, ...]

    def used_columns(self) -> set[str]:
        return {tile.column for tile in self.tiles}


class Line(Section, frozen=True, kw_only=True, tag="line"):
    """Curves, or upright columns, over a number.

    Attributes:
        other_x: columns that the reader can choose in place of `x`.
        y: columns with a curve each.
        series: column whose values name curves of their own.
        bold: the value of `series` whose curve is drawn over the others.
        deadline: value of y at which a line is drawn; columns beyond it are trouble.
    """

    x: str
    y: tuple[str, ...]
    series: str | None = None
    bold: str | None = None
    shape: Literal["line", "columns"] = "line"
    is_log: bool = False
    deadline: float | None = None
    other_x: tuple[str, ...] = ()

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("x", "other_x", "y", "series")


class Bars(Section, frozen=True, kw_only=True, tag="bars"):
    """A lying bar per row name, made of parts end to end; the mean of its rows, or those with one value of `pick`.

    Attributes:
        row: column that names the bars.
        parts: columns with the lengths of the parts.
        idle: those of them that are not counted in the length beside the bar.
        deadline: column with the length at which a line is drawn.
        end: column with the length at which the bar should have ended; the mean leaves out rows without one.
        pick: column by which rows can be chosen.
    """

    row: str
    parts: tuple[str, ...]
    idle: tuple[str, ...] = ()
    deadline: str | None = None
    end: str | None = None
    pick: str | None = None

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("row", "parts", "deadline", "end", "pick")


class Grid(Section, frozen=True, kw_only=True, tag="grid"):
    """A cell per row name and number, the darker the larger its value.

    Attributes:
        state: column that says what became of it.
        bad: values of `state` that are trouble.
    """

    row: str
    x: str
    value: str
    state: str | None = None
    bad: tuple[str, ...] = ()

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("row", "x", "value", "state")


class Gantt(Section, frozen=True, kw_only=True, tag="gantt"):
    """Spans of time in a lane per row name.

    Attributes:
        colour: column whose values are told apart by colour.
        state: column whose values are told apart by their looks; `full` for those not in `looks`.
    """

    row: str
    start: str
    end: str
    colour: str | None = None
    state: str | None = None
    looks: dict[str, Look] = {}

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("row", "start", "end", "colour", "state")


class Fleet(Section, frozen=True, kw_only=True, tag="fleet"):
    """A lane per device: what it did in its round, what it does now, and the deadline; rows are never left out.

    Attributes:
        row: column that names the devices.
        opened: column with the time of the run at which a device's round began; all seconds count from there.
        parts: columns with the seconds that it spent on one thing after another.
        doing: column with that one of the parts which goes on now; none if nothing does.
        since: column with the second at which that began.
        deadline: column with the second at which its work is due; None where nothing is.
        expected: column with the second at which its work was expected, by what it did before.
        arrival: column with the second at which it came.
        state: column that says how it stands, in a word.
        bad: values of `state` that are trouble.
        counts: further columns to show.
    """

    row: str
    opened: str
    parts: tuple[str, ...]
    doing: str
    since: str
    state: str
    deadline: str | None = None
    expected: str | None = None
    arrival: str | None = None
    bad: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()

    _fields_of_columns: ClassVar[tuple[str, ...]] = (
        *("row", "opened", "parts", "doing", "since", "state", "deadline", "expected", "arrival", "counts"),
    )


class Graph(Section, frozen=True, kw_only=True, tag="graph"):
    """Nodes, and arrows from one to another: a row of the table each.

    Attributes:
        start: column with the node that an arrow comes from, and `end` with that which it goes to.
        weight: column by which arrows are thick.
        nodes: table of the nodes.
        node: column of that table that names them; `node_state` says how they stand.
        bad: values of `node_state` that are trouble.
        level: column of that table with a node's place from left to right; without one, nodes are in a ring.
        node_details: columns of that table shown for the node that the pointer is over.
    """

    start: str
    end: str
    nodes: str
    node: str
    weight: str | None = None
    node_state: str | None = None
    bad: tuple[str, ...] = ()
    level: str | None = None
    node_details: tuple[str, ...] = ()

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("start", "end", "weight")

    def used_tables(self) -> dict[str, set[str]]:
        shown = {self.node, self.node_state, self.level, *self.node_details} - {None}
        return {**super().used_tables(), self.nodes: {str(name) for name in shown}}


class Log(Section, frozen=True, kw_only=True, tag="log"):
    """What happened in plain words, the newest first: columns of the time of the run, and of the text."""

    at: str = "at"
    text: str = "what"

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("at", "text")


class TableSection(Section, frozen=True, kw_only=True, tag="table"):
    """Columns of a table as they are.

    Attributes:
        columns: all if empty.
        total: a last row for all of them, a value per column.
        file: where rows are that a page leaves out.
    """

    columns: tuple[str, ...] = ()
    total: tuple[Value, ...] = ()
    file: str = "events.jsonl"

    _fields_of_columns: ClassVar[tuple[str, ...]] = ("columns",)


AnySection: TypeAlias = Tiles | Line | Bars | Grid | Gantt | Fleet | Graph | Log | TableSection
