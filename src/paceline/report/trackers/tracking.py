"""Follows a run for its trackers: turns events into rows, and hands these over in a thread, so that no run waits."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NamedTuple

import msgspec

from paceline.axon.metrics import Metric, Sample
from paceline.errors import PacelineError, in_one_line
from paceline.events import Event
from paceline.report.folder import TRACKERS_FOLDER, RunFolder
from paceline.report.rows import RowReader, numbers_of
from paceline.report.trackers.base import Setting, TrackedEnd, TrackedRun, Tracker
from paceline.topologies.reporting.base import Reporting, Summary

MAX_WAITING = 100_000
"""Rows that wait for a tracker; those beyond are left out, and their number is logged."""

PATIENCE_SECONDS = 30.0
"""Longest that the end of a run waits for a tracker that does nothing."""

_MOMENT_SECONDS = 2.0  # of waiting that is not worth a line

_log = logging.getLogger(__name__)


class Tracking:
    """Trackers of a run, and of the jobs in it. A context manager; leaving it ends what is tracked.

    Args:
        kinds: trackers by the name of their folder.
        fleet: what describes the devices, see `Fleet.described`.
        started_at: time of the run at which it begins, later than 0 for one that goes on.
    """

    def __init__(
        self,
        kinds: Mapping[str, type[Tracker]],
        folder: RunFolder,
        fleet: Mapping[str, Any] | None = None,
        started_at: float = 0.0,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._folder = folder
        counted = {**fleet, "num_devices": len(fleet.get("devices", ()))} if fleet else {}
        self._settings = {"fleet": counted, "versions": folder.versions if kinds else {}}
        self._began_at, self._is_resumed = time.time() - started_at, started_at > 0
        self._patience_seconds = patience_seconds
        self._followers = [_Follower(name, kind) for name, kind in kinds.items()]
        self._rows: dict[str, RowReader] = {}

    def __enter__(self) -> Tracking:
        if self._followers:
            settings = self._folder.settings
            for follower in self._followers:
                follower.start()
            self._begin("", self._folder.reporting, settings)
        return self

    def feed(self, event: Event, job: str = "") -> None:
        """Hand over the rows of an event; `job` names the job of a pool that it belongs to."""
        for row in self._rows[job].of(event):
            for follower in self._followers:
                follower.hand_over(job, "log", row)

    def metrics(self) -> Iterator[Metric]:
        """Return how far behind trackers are."""
        samples = [Sample(one.num_waiting, {"tracker": one.name}) for one in self._followers]
        yield Metric("paceline_tracker_waiting", "gauge", "Rows that wait for a tracker.", samples)

    def begin_job(self, job: str, folder: RunFolder) -> None:
        """Take note of a job in the run; rows of it follow."""
        self._begin(job, folder.reporting, folder.settings)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._followers:
            return
        summaries = _summaries(self._folder)
        for job in reversed(self._rows):  # those of jobs before that of the run
            end = _end(error, summaries.get(job))
            for follower in self._followers:
                follower.hand_over(job, "end", end)
        for follower in self._followers:
            follower.close(self._patience_seconds)

    def _begin(self, job: str, reporting: Reporting, settings: Mapping[str, Any]) -> None:
        self._rows[job] = RowReader(reporting)
        run = TrackedRun(
            name=self._folder.path.absolute().name,
            job=job,
            kind=reporting.kind,
            folder=self._folder.path,
            settings=dict(_flat({**settings, **self._settings})),
            began_at=self._began_at,
            is_resumed=self._is_resumed,
        )
        for follower in self._followers:
            follower.begin(run)


class _Task(NamedTuple):
    """Something for a tracker to do."""

    job: str
    method: Literal["start", "log", "end"]
    argument: Any


class _Follower:
    """A tracker of a run, with those of its jobs, in a thread of their own."""

    def __init__(self, name: str, kind: Callable[[], Tracker]) -> None:
        self.name, self._kind = name, kind
        self._trackers: dict[str, Tracker] = {}
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._has_failed = False
        self._num_rows = self._num_left_out = 0  # counted where rows come from
        self._num_done = self._num_rows_done = 0  # counted in the thread
        # A daemon: a tracker that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"tracker-{name}", daemon=True)

    def start(self) -> None:
        """Begin to do what is handed over."""
        self._thread.start()

    @property
    def num_waiting(self) -> int:
        """Number of rows that it has not kept yet."""
        return self._num_rows - self._num_rows_done

    def begin(self, run: TrackedRun) -> None:
        """Hand over the start of a run or job."""
        folder = run.folder / TRACKERS_FOLDER / self.name
        self._tasks.put(_Task(run.job, "start", replace(run, folder=folder)))

    def hand_over(self, job: str, method: Literal["log", "end"], argument: Any) -> None:
        """Hand over a row, or the end; returns at once."""
        if self._has_failed:
            return
        if method == "log" and self.num_waiting >= MAX_WAITING:
            self._num_left_out += 1
            if self._num_left_out == 1:
                _log.warning("tracker %s is %d rows behind: further ones are left out", self.name, MAX_WAITING)
            return
        self._num_rows += method == "log"
        self._tasks.put(_Task(job, method, argument))

    def close(self, patience_seconds: float) -> None:
        """Wait until all is done, or nothing has been for so long."""
        self._tasks.put(None)
        self._thread.join(min(_MOMENT_SECONDS, patience_seconds))
        if self._thread.is_alive():
            _log.warning("waiting for tracker %s, which has %d rows to keep", self.name, self.num_waiting)
        num_before = -1
        while self._thread.is_alive() and self._num_done != num_before:
            num_before = self._num_done
            self._thread.join(patience_seconds)
        if self._thread.is_alive():
            _log.error("tracker %s hangs: %d rows are not kept", self.name, self.num_waiting)
        if self._num_left_out:
            _log.error("tracker %s was too slow: %d rows are not kept", self.name, self._num_left_out)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            if not self._has_failed:
                self._do(task)
            self._num_done += 1
            self._num_rows_done += task.method == "log"

    def _do(self, task: _Task) -> None:
        try:
            if task.method == "start":
                self._trackers[task.job] = self._kind()
            getattr(self._trackers[task.job], task.method)(task.argument)
        except (Exception, SystemExit) as error:
            self._has_failed = True
            why = in_one_line(error, is_named=True)
            _log.error("tracker %s failed, and keeps nothing further of this run: %s", self.name, why)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """List nested settings by dotted keys; lists become JSON."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, str | int | float):
            yield f"{prefix}{key}", value
        elif value is not None:
            yield f"{prefix}{key}", msgspec.json.encode(value).decode()


def _summaries(folder: RunFolder) -> dict[str, Summary]:
    """Sum up a run, and the jobs in it by name, as far as its record can be read."""
    try:
        return {"": folder.summary(), **{name: job.summary() for name, job in folder.jobs().items()}}
    except PacelineError as error:
        _log.warning("trackers get no headline figures: %s", in_one_line(error))
        return {}


def _end(error: BaseException | None, summary: Summary | None) -> TrackedEnd:
    figures: dict[str, float] = {}
    ended = ""
    if summary is not None:
        table = summary.tables["summary"]
        figures, ended = dict(numbers_of(table.columns, table.rows[0])), summary.ended or ""
    if error is None:
        return TrackedEnd(status="finished", reason=ended or "done", figures=figures)
    if isinstance(error, KeyboardInterrupt):
        return TrackedEnd(status="interrupted", reason="interrupted", figures=figures)
    return TrackedEnd(status="failed", reason=in_one_line(error, is_named=True), figures=figures)
