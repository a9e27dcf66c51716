"""What commands that run a job have in common: watching it, and telling what came of it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from paceline.events import AnyEvent, Emit
from paceline.monitor import watcher
from paceline.runs import Run


class _RunClock:
    """The time of a run, as far as its events tell: the last one's, and what has passed since."""

    def __init__(self) -> None:
        self._at = 0.0
        self._seen = time.monotonic()

    def tell(self, event: AnyEvent) -> None:
        self._at, self._seen = event.at, time.monotonic()

    def now(self) -> float:
        return self._at + time.monotonic() - self._seen


@contextlib.contextmanager
def watching(console: Console) -> Iterator[Emit]:
    """Show a run while it runs: a live table on a terminal, plain lines elsewhere."""
    clock = _RunClock()
    with watcher(console, clock.now) as tell:

        def emit(event: AnyEvent) -> None:
            clock.tell(event)
            tell(event)

        yield emit


def describe(run: Run) -> dict[str, Any]:
    """The result of a run as plain data; writes its report."""
    summary = run.summary()
    return {
        "accuracy": run.accuracy,
        "loss": run.loss,
        "rounds": run.rounds,
        "truancy_max": summary.truancy_max,
        "truancy_mean": summary.truancy_mean,
        "seconds": summary.seconds,
        "run": str(run.folder),
        "report": str(run.report()),
    }


def show(run: Run, console: Console, *, as_json: bool) -> None:
    """Print the result of a run."""
    told = describe(run)
    if as_json:
        print(json.dumps(told))
        return
    accuracy = "" if told["accuracy"] is None else f"accuracy {told['accuracy']:.1%} after "
    console.print(
        f"{accuracy}{told['rounds']} rounds, {told['seconds']:.1f} s; truancy {_percent(told['truancy_max'])} at most, "
        f"{_percent(told['truancy_mean'])} on average",
        highlight=False,
    )
    console.print(f"run     {told['run']}\nreport  {told['report']}", highlight=False, soft_wrap=True)


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio:+.1%}"
