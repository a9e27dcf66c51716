"""How commands end on SIGTERM."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from paceline.cli.main import EXIT_TERMINATED
from paceline.fleets.live import Terminated
from paceline.logs import say


@contextlib.contextmanager
def ending_by_signal() -> Iterator[None]:
    """Exit with a code of its own if SIGTERM ended what the block does."""
    try:
        yield
    except Terminated:
        exit_terminated()


def exit_terminated() -> None:
    """Say that SIGTERM ended the command, and exit."""
    say("terminated", "paceline: terminated", level="warning")
    raise typer.Exit(EXIT_TERMINATED) from None
