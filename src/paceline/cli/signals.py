"""How commands end on SIGTERM."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

from paceline.cli.main import EXIT_TERMINATED
from paceline.fleets.live import Terminated


@contextlib.contextmanager
def ending_by_signal() -> Iterator[None]:
    """Exit with a code of its own if SIGTERM ended what the block does."""
    try:
        yield
    except Terminated:
        exit_terminated()


def exit_terminated() -> None:
    """Say that SIGTERM ended the command, and exit."""
    print("paceline: terminated", file=sys.stderr)
    raise typer.Exit(EXIT_TERMINATED) from None
