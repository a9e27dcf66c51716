"""Shows a run as it goes: a table that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from paceline.events import Emit, Event
from paceline.monitor.board import Board, Seat, Stretch
from paceline.monitor.lines import PlainLines
from paceline.monitor.wording import printable, say_count, say_ratio, say_seconds

# A height for each as well as a colour, for terminals and eyes that do not tell colours apart.
_SIGNS: dict[Stretch, tuple[str, str]] = {
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
    """A table with a row per learner, its round as a bar against the deadline, and how the run stands.

    A context manager; what is printed meanwhile appears above the table, and the last state stays when it ends.

    Attributes:
        now: the run's clock, in seconds since its start as in the events; it is called from another thread.
    """

    def __init__(self, console: Console, now: Callable[[], float]) -> None:
        self._console = console
        self._now = now
        self._board = Board()
        self._lock = threading.Lock()
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=_REFRESHES_PER_SECOND)

    def tell(self, event: Event) -> None:
        """Take an event into account; the screen follows within an eighth of a second."""
        with self._lock:
            self._board.tell(event)

    def render(self) -> RenderableType:
        """The table as of now."""
        with self._lock:
            board = self._board
            now = board.ended.at if board.ended is not None else self._now()
            num_rows = max(min(_MAX_ROWS, self._console.height - _NUM_OTHER_LINES), 3)
            shown = board.most_interesting(num_rows)
            parts: list[RenderableType] = [self._table(shown, now)]
            if len(shown) < len(board.seats):
                parts.append(Text(f"… and {len(board.seats) - len(shown):,} more", style="bright_black"))
            return Group(*parts, Text(), *_footer(board, now))

    def __enter__(self) -> LiveTable:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def _table(self, seats: list[Seat], now: float) -> Table:
        name_width = min(max((cell_len(printable(seat.name)) for seat in seats), default=0), _MAX_NAME_WIDTH)
        name_width = max(name_width, len("learner"))
        free_width = self._console.width - name_width - 2 * _COUNT_WIDTH - 5  # one between columns, one for the mark
        bar_width = max(_MIN_BAR_WIDTH, min(free_width - _MIN_STATUS_WIDTH, _MAX_BAR_WIDTH))
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column("learner", no_wrap=True, width=name_width, overflow="ellipsis")
        table.add_column(_bar_heading(self._board, bar_width), no_wrap=True, width=bar_width + 1)
        table.add_column("shards", justify="right", no_wrap=True, width=_COUNT_WIDTH)
        table.add_column("samples", justify="right", no_wrap=True, width=_COUNT_WIDTH)
        table.add_column("status", no_wrap=True, overflow="ellipsis", width=max(free_width - bar_width, 4))
        for seat in seats:
            is_current = self._board.is_in_round(seat)
            table.add_row(
                Text(printable(seat.name)),
                _bar(self._board, seat, now, bar_width),
                f"{seat.num_shards:,}" if is_current and seat.num_shards is not None else "",
                f"{seat.num_samples:,}" if is_current and seat.num_samples is not None else "",
                Text(seat.status, style=_status_style(seat)),
            )
        return table


@contextlib.contextmanager
def watcher(console: Console, now: Callable[[], float]) -> Iterator[Emit]:
    """Show a run on this console as suits it; gives what is to be told of events.

    Args:
        console: a terminal that can show it gets a `LiveTable`, anything else `PlainLines`.
        now: the run's clock, see `LiveTable`.
    """
    if console.is_terminal and not console.is_dumb_terminal and not console.options.ascii_only:
        with LiveTable(console, now) as table:
            yield table.tell
    else:
        yield PlainLines(console).tell


def _bar_heading(board: Board, width: int) -> Text:
    left = f"round {board.round}" if board.round else "benchmark"
    right = "" if board.deadline_seconds is None else f"{say_seconds(board.deadline_seconds)} ▾"
    return Text(left + right.rjust(width + 1 - len(left)))


def _bar(board: Board, seat: Seat, now: float, width: int) -> Text:
    """The seat's round so far: a cell shows what was done in its middle, the mark at the end is the deadline."""
    bar = Text()
    length_seconds = board.deadline_seconds or 1.0
    is_closed = seat.round == board.round and board.closed_at is not None
    until = min(end for end in (now, board.closed_at if is_closed else None, seat.gone_at) if end is not None)
    for cell in range(width if board.is_in_round(seat) and seat.stretches else 0):
        at = seat.origin + (cell + 0.5) / width * length_seconds
        sign, style = _SIGNS[seat.stretch_at(at) or "idle"] if at < until else (" ", "")
        bar.append(sign, style)
    bar.pad_right(width - len(bar))
    bar.append("│", "bold red" if seat.status == "late" else "bright_black")
    return bar


def _status_style(seat: Seat) -> str:
    if seat.gone_at is not None:
        return "bright_black"
    return "bold red" if seat.is_trouble else _SIGNS[seat.doing][1]


def _footer(board: Board, now: float) -> list[Text]:
    lines = [_legend(board), _progress(board, now), _results(board)]
    lines += [Text(message, style="bright_black", no_wrap=True, overflow="ellipsis") for message in board.messages]
    return [line for line in lines if line.plain]


def _legend(board: Board) -> Text:
    """The signs that can occur in this run."""
    is_told = any(seat.is_told for seat in board.seats.values())
    is_untold = any(not seat.is_told for seat in board.seats.values())
    legend = Text()
    for stretch, (sign, style) in _SIGNS.items():
        if stretch == "idle" or (is_untold if stretch == "working" else is_told):
            legend.append(3 * sign, style).append(f" {stretch}   ", "bright_black")
    return legend if board.seats else Text()


def _progress(board: Board, now: float) -> Text:
    line = Text()
    if board.round:
        line.append(f"round {board.round}" + (f" of {board.num_rounds:,}" if board.num_rounds else ""), "bold")
    gap = "   " if board.round else ""
    if board.ended is not None:
        return line.append(f"{gap}finished: {board.ended.reason}", "green")
    if board.waiting is not None:
        waiting = board.waiting
        return line.append(f"{gap}waiting for learners: {waiting.num_ready} of {waiting.min_learners} ready", "yellow")
    if board.opened_at is not None and board.deadline_seconds is not None:
        left_seconds = board.opened_at + board.deadline_seconds - now
        if board.closed_at is not None:
            line.append("   closed")
        else:
            line.append(f"   {say_seconds(left_seconds)} left" if left_seconds >= 0 else "   deadline passed")
    return line


def _results(board: Board) -> Text:
    line = Text()
    if board.loss is not None:
        line.append(f"loss {board.loss:.3f}   ")
    if board.accuracies:
        line.append(f"accuracy {say_ratio(board.accuracies[-1])} ").append(_sparkline(list(board.accuracies)), "cyan")
    if board.num_samples:
        line.append(f"   {say_count(board.num_samples, 'sample')}")
    return line


def _sparkline(values: list[float]) -> str:
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((value - low) / span * (len(_SPARKS) - 1))] for value in values)
