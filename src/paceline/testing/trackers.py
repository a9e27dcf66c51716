"""The contract of trackers: whatever a run may be called, be set to or achieve is kept, or goes on being kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from paceline.report.rows import Row
from paceline.report.trackers import TrackedEnd, TrackedRun, Tracker

ODD = "pi@höme 1 – ünlike"
SETTINGS = {"job.rounds": 3, "job.name": ODD, "job.empty": "", "job.rolls_back": True, "fleet.devices": "x" * 20_000}


def make_run(folder: Path, **changes: object) -> TrackedRun:
    """A run that keeps its files in a folder."""
    given = {"name": "run", "kind": "run", "folder": folder, "settings": SETTINGS, "began_at": 1.8e9, **changes}
    return TrackedRun(**given)  # type: ignore[arg-type]


def make_row(step: int, *, learner: str = "", **figures: float) -> Row:
    """A row of a table, of a device if it is named."""
    labels = {"learner": learner} if learner else {}
    return Row(table="epochs", step=step, at=2.5 * step, labels=labels, figures=figures)


END = TrackedEnd(status="finished", reason="rounds done", figures={"loss": 0.25})


class TrackerTests:
    """Inherit it as a class whose name begins with ``Test``, with `make` set."""

    make: ClassVar[Callable[[], Tracker]]

    @pytest.fixture
    def tracker(self) -> Tracker:
        return type(self).make()

    def test_a_run_is_kept_from_start_to_end(self, tracker: Tracker, tmp_path: Path) -> None:
        tracker.start(make_run(tmp_path / "kept"))
        for step in range(1, 4):
            tracker.log(make_row(step, loss=1 / step, bytes_sent=1e15))
        tracker.end(END)

    def test_names_and_figures_may_be_odd(self, tracker: Tracker, tmp_path: Path) -> None:
        tracker.start(make_run(tmp_path / "kept", name=ODD))
        tracker.log(make_row(0, learner=ODD, **{"recall@5": -0.0, "a.b-c": 1e-300}))
        tracker.log(make_row(2**40, learner=ODD))
        tracker.end(TrackedEnd(status="failed", reason=f"OSError: {ODD}" * 1000))

    def test_tables_may_be_at_different_steps(self, tracker: Tracker, tmp_path: Path) -> None:
        tracker.start(make_run(tmp_path / "kept"))
        for step, learner in ((1, "ann"), (2, "ann"), (1, "bob"), (3, "ann"), (2, "bob")):
            tracker.log(make_row(step, learner=learner, loss=0.5))
        tracker.end(END)

    def test_a_run_that_was_interrupted_goes_on(self, tmp_path: Path) -> None:
        for is_resumed in (False, True, True):
            tracker = type(self).make()
            tracker.start(make_run(tmp_path / "kept", is_resumed=is_resumed))
            tracker.log(make_row(1, loss=0.5))
            tracker.end(TrackedEnd(status="interrupted", reason="interrupted"))

    def test_a_run_may_go_on_of_which_nothing_was_kept(self, tracker: Tracker, tmp_path: Path) -> None:
        tracker.start(make_run(tmp_path / "kept", is_resumed=True))
        tracker.end(END)

    def test_jobs_are_kept_beside_each_other(self, tmp_path: Path) -> None:
        jobs = ("", "small", "large")
        trackers = [type(self).make() for _ in jobs]
        for tracker, job in zip(trackers, jobs, strict=True):
            tracker.start(make_run(tmp_path / "kept", job=job))
        for tracker in trackers:
            tracker.log(make_row(1, loss=0.5))
        for tracker in reversed(trackers):
            tracker.end(END)
