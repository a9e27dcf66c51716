"""Progress of a run that a Python program started: a bar in a notebook, lines elsewhere."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from rich.console import Console

from paceline.events import Event
from paceline.report.lines import LinePrinter
from paceline.topologies.reporting.base import Milestone, Progress, Reporting

_BAR_CELLS = 20


class NotebookBar:
    """A bar in the output of a cell, changed in place; of the lines of a run, it shows the newest milestone.

    It needs no widgets, so it also works where none are installed, and its last state is kept with the notebook.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._line = "starting …"
        self._has_milestone = False
        self._display: Any = None

    def feed(self, event: Event, job: str = "") -> None:
        """Show what an event changes."""
        for line in self._progress.lines(event, job):
            is_milestone = isinstance(line, Milestone)
            if is_milestone or not self._has_milestone:
                self._has_milestone |= is_milestone
                self._line = line
                self._show()

    def _show(self) -> None:
        if self._display is None:
            from IPython.display import display  # there, since this is a notebook

            show: Any = display
            self._display = show(self._shown(), raw=True, display_id=True)
        else:
            self._display.update(self._shown(), raw=True)

    def _shown(self) -> dict[str, str]:
        share = self._progress.share_done or 0.0
        num_full = round(share * _BAR_CELLS)
        bar = "█" * num_full + "░" * (_BAR_CELLS - num_full)
        return {
            "text/plain": f"{bar} {self._line}",
            "text/html": f"<progress value='{share:.3f}' max='1'></progress> <code>{html.escape(self._line)}</code>",
        }


def progress_callback(reporting: Reporting) -> Callable[..., None]:
    """Return a callback that shows a run."""
    console, progress = Console(stderr=True), reporting.progress()
    return NotebookBar(progress).feed if console.is_jupyter else LinePrinter(console, progress).feed
