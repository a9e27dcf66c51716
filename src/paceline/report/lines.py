"""Prints a run as plain lines for logs and pipes: no control codes, one line per thing."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from paceline.events import Event
from paceline.topologies.reporting.base import Milestone, Progress

_MAX_ALIKE = 20


class LinePrinter:
    """Prints the lines of a run; of very many alike in a row, the first and how many there were."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._last_kind: type | None = None
        self._num_alike = 0

    def feed(self, event: Event, job: str = "") -> None:
        """Print the lines that an event makes due; `job` names the job of a pool that it belongs to."""
        for line in self._progress.lines(event, job):
            kind = Milestone if isinstance(line, Milestone) else type(event)
            if kind is not self._last_kind:
                if self._last_kind is not Milestone and self._num_alike > _MAX_ALIKE:
                    self._print(f"... and {self._num_alike - _MAX_ALIKE:,} more like these")
                self._last_kind, self._num_alike = kind, 0
            self._num_alike += 1
            if self._num_alike <= _MAX_ALIKE or kind is Milestone:
                self._print(line)

    def _print(self, line: str) -> None:
        encoding = self._console.encoding  # of a log file it may be anything, and a name may not fit into it
        self._console.print(Text(line.encode(encoding, "replace").decode(encoding)), soft_wrap=True)
