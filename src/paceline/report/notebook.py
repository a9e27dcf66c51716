"""Progress of a run that a Python program started: a bar and its page in a notebook, lines and an address elsewhere."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from paceline.events import Event
from paceline.report.lines import LinePrinter
from paceline.report.serving.process import page_beside
from paceline.topologies.reporting.base import Milestone, Progress, Reporting

_BAR_CELLS = 20
_FRAME_PIXELS = 720


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


def frame(*, document: str = "", url: str = "") -> str:
    """Return HTML that shows a page inside another one, either a whole document or one at an address."""
    source = f'src="{html.escape(url)}"' if url else f'srcdoc="{html.escape(document)}"'
    rights = "allow-scripts allow-same-origin" if url else "allow-scripts"  # to ask its own server for what is new
    return f'<iframe {source} sandbox="{rights}" width="100%" height="{_FRAME_PIXELS}" style="border: 0"></iframe>'


@contextlib.contextmanager
def live_page(folder: Path, port: int) -> Iterator[None]:
    """Show the page of a run while the block runs: in the output of a cell, or at an address that is printed.

    Args:
        port: port to listen on, on this machine; 0 picks a free one.
    """
    console = Console(stderr=True)
    if not console.is_jupyter:
        with page_beside(folder, port, lambda url: console.print(f"page    {url}", highlight=False, soft_wrap=True)):
            yield
        return
    from IPython.display import display  # there, since this is a notebook

    show: Any = display
    shown = show({"text/plain": "the page comes …"}, raw=True, display_id=True)

    def announce(url: str) -> None:
        shown.update({"text/plain": f"page    {url}", "text/html": frame(url=url)}, raw=True)

    try:
        with page_beside(folder, port, announce):
            yield
    finally:
        shown.update({"text/plain": f"run     {folder}"}, raw=True)  # what is over is nowhere to be asked


def progress_callback(reporting: Reporting) -> Callable[..., None]:
    """Return a callback that shows a run."""
    console, progress = Console(stderr=True), reporting.progress()
    return NotebookBar(progress).feed if console.is_jupyter else LinePrinter(console, progress).feed
