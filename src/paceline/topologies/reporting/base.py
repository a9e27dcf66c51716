"""What a topology declares about its runs: tables and sections of pages, lines and a live table of terminals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from paceline.devices.energy import GRAMS_CO2_PER_KWH
from paceline.events import Event
from paceline.learning.scores import LOSS
from paceline.topologies.reporting.formatting import describe_metrics
from paceline.topologies.reporting.sections import AnySection
from paceline.topologies.reporting.tables import RecordedTable, Table, Value, columns


class Milestone(str):
    """A line of a terminal that is never left out, however many like it there are."""

    __slots__ = ()


class TableBuilder(ABC):
    """Makes the tables of a run from its events, in one pass; they can be had at any time.

    Events come in the order recorded. Events that contradict each other raise `ConfigError`.

    Attributes:
        last_at: time of the last event, on the run's clock.
        forgets_details: whether it may let go of what a page does not show of a large fleet, so that following a run
            takes no more memory the longer it lasts.
    """

    last_at = 0.0
    forgets_details = False

    @abstractmethod
    def feed(self, event: Event, job: str = "") -> None:
        """Take an event into account; `job` names the job of a pool that it belongs to."""

    @abstractmethod
    def tables(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> list[Table]:
        """Make the tables of the events so far.

        One is called ``summary`` and has a single row of headline figures, with at least the text columns `about` and
        `ended` (why the run is over; None if it is not).

        Args:
            grams_per_kwh: carbon intensity of the devices' energy.
        """

    def moving_tables(self) -> list[Table]:
        """Make only those tables that show what goes on at this moment, which takes little time."""
        return []


class Progress(ABC):
    """Writes a run as lines of text, while it goes on."""

    @abstractmethod
    def lines(self, event: Event, job: str = "") -> Iterable[str]:
        """Write the lines that an event makes due; `Milestone` for those that must be shown."""

    @property
    def share_done(self) -> float | None:
        """Part of the run that is done, by the events so far; None if that is not known."""
        return None


Activity: TypeAlias = Literal["benchmark", "download", "train", "upload", "working", "idle"]
"""What a device does, as a live table draws it; it works if nothing more is known."""


class LiveTableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a live table.

    Attributes:
        bar: what the device did at each moment asked for; None where nothing is drawn.
        counts: texts for the columns of numbers.
        style: what its status looks like.
    """

    name: str
    bar: Sequence[Activity | None]
    counts: tuple[str, ...]
    status: str
    style: Activity | Literal["bad", "gone"]


class LiveTableView(msgspec.Struct, frozen=True, kw_only=True):
    """What a live table shows at a moment.

    Attributes:
        bar_title: over the left and over the right end of the bars.
        rows: rows of some devices, if there are many.
        activities: those that can occur.
        results: the last of these values are drawn as a small curve after the text.
    """

    bar_title: tuple[str, str]
    count_titles: tuple[str, ...]
    rows: Sequence[LiveTableRow]
    num_rows: int
    activities: Sequence[Activity]
    progress: str
    results: tuple[str, Sequence[float], str]
    messages: Sequence[str]


class LiveTableState(ABC):
    """How a run stands, for a table that changes on a terminal."""

    @abstractmethod
    def feed(self, event: Event) -> None:
        """Take an event into account."""

    @abstractmethod
    def view(self, now: float, num_rows: int, bar_cells: int) -> LiveTableView:
        """Show the run at a moment of its clock, with at most so many rows, and bars of so many cells."""


class Reporting(ABC):
    """How a topology reports its runs. It reads events and never reaches into a run.

    Attributes:
        kind: what messages call such a run.
        recorded: tables that are written while the run goes on.
        subfolder: folder of a run folder for whatever is kept besides.
    """

    kind: ClassVar[str]
    recorded: ClassVar[tuple[RecordedTable, ...]]
    subfolder: ClassVar[str] = "checkpoints"

    def builder(self, settings: dict[str, Any]) -> TableBuilder:
        """Begin the tables of a run of this resolved job; by default those that are recorded."""
        return _RecordedTables(self.kind, self.recorded)

    @abstractmethod
    def sections(self, tables: Mapping[str, Table]) -> list[AnySection]:
        """Choose what a page shows of these tables, in order; refers to no others, nor to columns they lack.

        Sections of tables without rows may be among them.
        """

    def shown(self, tables: Mapping[str, Table]) -> list[AnySection]:
        """Return the sections that have something to show."""
        return [section for section in self.sections(tables) if tables[section.table].rows]

    def notices(self, tables: Mapping[str, Table]) -> list[str]:
        """Return sentences that stand first on a page, such as that something is not shown."""
        return []

    @abstractmethod
    def progress(self) -> Progress:
        """Begin the lines of a run."""

    def live_table(self) -> LiveTableState | None:
        """Begin the live table of a run; None if lines are all it has."""
        return None

    def result(self, metrics: Mapping[str, Any], summary: Summary) -> dict[str, Any]:
        """Return the figures of a run that is over, for JSON; `metrics` are those of its `Outcome`."""
        return dict(metrics)

    def conclusion(self, result: Mapping[str, Any], summary: Summary) -> Iterable[str]:
        """Write the lines that end a run, of its result; by default the figures that are not whole."""
        figures = {name: value for name, value in result.items() if isinstance(value, float) and name != LOSS}
        return [", ".join(describe_metrics(figures)) or "done"]

    def summary(
        self,
        events: Iterable[Event],
        settings: dict[str, Any] | None = None,
        jobs: Mapping[str, Iterable[Event]] | None = None,
        grams_per_kwh: float = GRAMS_CO2_PER_KWH,
    ) -> Summary:
        """Sum up a run, finished or not; raises `ConfigError` for events that contradict each other.

        Args:
            settings: the resolved job.
            jobs: events of a pool's jobs, by name.
            grams_per_kwh: carbon intensity of the devices' energy.
        """
        builder = self.builder(settings or {})
        for event in events:
            builder.feed(event)
        for name, of_job in (jobs or {}).items():
            for event in of_job:
                builder.feed(event, name)
        return Summary(builder.tables(grams_per_kwh))


class _RecordedTables(TableBuilder):
    """The tables that a run records as it goes, and the last row of each as headline figures."""

    def __init__(self, kind: str, recorded: Sequence[RecordedTable]) -> None:
        self._kind = kind
        self._growing = [(one.name, one.begin(), list[tuple[Value, ...]]()) for one in recorded]

    def feed(self, event: Event, job: str = "") -> None:
        self.last_at = max(self.last_at, event.at)
        for _, table, rows in self._growing:
            row = table.row(event)
            if row is not None:
                rows.append(row)

    def tables(self, grams_per_kwh: float = GRAMS_CO2_PER_KWH) -> list[Table]:
        made = [Table(name, table.columns, rows) for name, table, rows in self._growing]
        last = {
            column: table.rows[-1][place] if table.rows else None
            for table in made
            for place, column in enumerate(table.columns)
        }
        shown = (*columns("about text", "ended text"), *last)
        return [Table("summary", shown, [(self._kind, None, *last.values())]), *made]


class Summary:
    """Headline figures of a run, as attributes or by name (``summary["accuracy"]``), and its `tables` by name."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self.tables = {table.name: table for table in tables}
        (self._values,) = self.tables["summary"].records()

    @property
    def metrics(self) -> dict[str, float | None]:
        """Figures of the metrics of the task, by name."""
        return {column.name: self._values[column.name] for column in self.tables["summary"].metrics}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_values", ()))
            raise AttributeError(f"a summary has no {name!r}; it has {known}, and tables") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)
