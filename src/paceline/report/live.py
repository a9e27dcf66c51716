"""Shows a run as it goes: a table that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from paceline import logs
from paceline.events import Emit, Event
from paceline.report.event_log import EventLog
from paceline.report.lines import LinePrinter
from paceline.topologies.reporting.base import Activity, LiveTableRow, LiveTableState, LiveTableView, Reporting

# A height for each as well as a colour, for terminals and eyes that do not tell colours apart.
_SIGNS: dict[Activity, tuple[str, str]] = {
    "benchmark": ("▃", "magenta"),
    "download": ("▂", "bright_blue"),
    "train": ("▆", "green"),
    "upload": ("▄", "yellow"),
    "working": ("▅", "cyan"),
    "idle": ("·", "bright_black"),
}
_SPARKS = "▁▂▃▄▅▆▇█"
_REFRESHES_PER_SECOND = 8
_MAX_ROWS = 20
_NUM_OTHER_LINES = 9  # heading, legend, round, results, messages
_MAX_NAME_WIDTH = 14
_COUNT_WIDTH, _MIN_STATUS_WIDTH = 8, 16
_MIN_BAR_WIDTH, _MAX_BAR_WIDTH = 10, 56


class LiveTable:
    """A table with a row per device, what it does as a bar, and how the run stands.

    A context manager; what is printed meanwhile appears above the table, and the last state stays when it ends.

    Attributes:
        now: the run's clock, in seconds since its start as in the events; it is called from another thread.
    """

    def __init__(self, console: Console, state: LiveTableState, now: Callable[[], float]) -> None:
        self._console = console
        self._state = state
        self._now = now
        self._lock = threading.Lock()
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=_REFRESHES_PER_SECOND)

    def feed(self, event: Event) -> None:
        """Take an event into account; the screen follows within an eighth of a second."""
        with self._lock:
            self._state.feed(event)

    def render(self) -> RenderableType:
        """Draw the table as of now."""
        num_rows = max(min(_MAX_ROWS, self._console.height - _NUM_OTHER_LINES), 3)
        free_width = (
            self._console.width - _MAX_NAME_WIDTH - 2 * _COUNT_WIDTH - 5
        )  # one between columns, one for the mark
        bar_width = max(_MIN_BAR_WIDTH, min(free_width - _MIN_STATUS_WIDTH, _MAX_BAR_WIDTH))
        with self._lock:
            view = self._state.view(self._now(), num_rows, bar_width)
        parts: list[RenderableType] = [_table(view, bar_width, max(free_width - bar_width, 4))]
        if len(view.rows) < view.num_rows:
            parts.append(Text(f"… and {view.num_rows - len(view.rows):,} more", style="bright_black"))
        return Group(*parts, Text(), *(line for line in _footer(view) if line.plain))

    def __enter__(self) -> LiveTable:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()


@contextlib.contextmanager
def show_progress(console: Console, reporting: Reporting, now: Callable[[], float]) -> Iterator[Emit]:
    """Show a run on this console as suits it; yields what is to be called with each event.

    Args:
        console: a terminal that can show it gets a `LiveTable`, if the topology has one; anything else lines. If the
            log is JSON, it is that which shows the run.
        now: the run's clock, see `LiveTable`.
    """
    if logs.is_json():
        yield EventLog(reporting.progress()).feed
        return
    state = reporting.live_table()
    if state and console.is_terminal and not console.is_dumb_terminal and not console.options.ascii_only:
        with LiveTable(console, state, now) as table:
            yield table.feed
    else:
        yield LinePrinter(console, reporting.progress()).feed


def _table(view: LiveTableView, bar_width: int, status_width: int) -> Table:
    name_width = min(max((cell_len(row.name) for row in view.rows), default=0), _MAX_NAME_WIDTH)
    left, right = view.bar_title
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("learner", no_wrap=True, width=max(name_width, len("learner")), overflow="ellipsis")
    table.add_column(Text(left + right.rjust(bar_width + 1 - len(left))), no_wrap=True, width=bar_width + 1)
    for title in view.count_titles:
        table.add_column(title, justify="right", no_wrap=True, width=_COUNT_WIDTH)
    table.add_column("status", no_wrap=True, overflow="ellipsis", width=status_width)
    for row in view.rows:
        table.add_row(Text(row.name), _bar(row, bar_width), *row.counts, Text(row.status, style=_style(row)))
    return table


def _bar(row: LiveTableRow, width: int) -> Text:
    """Draw a cell per moment; the mark at the end is the deadline."""
    bar = Text()
    for activity in row.bar:
        bar.append(*(_SIGNS[activity] if activity else (" ", "")))
    bar.pad_right(width - len(bar))
    return bar.append("│", "bold red" if row.status == "late" else "bright_black")


def _style(row: LiveTableRow) -> str:
    if row.style == "gone":
        return "bright_black"
    return "bold red" if row.style == "bad" else _SIGNS[row.style][1]


def _footer(view: LiveTableView) -> Iterator[Text]:
    legend = Text()
    for activity in view.activities:
        sign, style = _SIGNS[activity]
        legend.append(3 * sign, style).append(f" {activity}   ", "bright_black")
    yield legend
    yield Text(view.progress, style="bold")
    before, values, after = view.results
    line = Text(before)
    if values:
        line.append(" ").append(_sparkline(values), "cyan")
    yield line.append(f"   {after}" if after else "")
    for message in view.messages:
        yield Text(message, style="bright_black", no_wrap=True, overflow="ellipsis")


def _sparkline(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((value - low) / span * (len(_SPARKS) - 1))] for value in values)
