"""Prints a run as lines of JSON on standard output."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from paceline.report.rows import Row
from paceline.report.trackers.base import TrackedEnd, TrackedRun, Tracker


class JsonTracker(Tracker):
    """One object per line, whose key ``track`` says whether it is the ``start``, a ``row`` or the ``end``."""

    def start(self, run: TrackedRun) -> None:
        self._about = {"run": run.name, "job": run.job}
        self._print("start", kind=run.kind, is_resumed=run.is_resumed, settings=run.settings)

    def log(self, row: Row) -> None:
        self._print("row", **msgspec.to_builtins(row))

    def end(self, end: TrackedEnd) -> None:
        self._print("end", **msgspec.to_builtins(end))

    def _print(self, what: str, **fields: Any) -> None:
        line = msgspec.json.encode({"track": what, **self._about, **fields}).decode()
        sys.stdout.write(f"{line}\n")  # one write, as others print, too
        sys.stdout.flush()
