"""Runs a job for a command: shows its progress, then prints its result."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console

from paceline.cli.signals import ending_by_signal, exit_terminated
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.fleets.base import Fleet
from paceline.fleets.live import LiveFleet
from paceline.learning import checkpoints
from paceline.report import RunFolder, show_progress
from paceline.report.folder import FLEET, LISTEN
from paceline.report.serving.process import page_beside
from paceline.run import PreparedRun, Run, prepare
from paceline.topologies.base import JobSpec


def run_and_show(
    job: JobSpec,
    fleet: Fleet,
    folder: Path | None,
    *,
    overwrite: bool,
    as_json: bool,
    save: Path | None = None,
    page: int | None = None,
    opening: str = "",
) -> None:
    """Run a job on a fleet; shows its progress, then its result.

    Args:
        overwrite: delete the run in that folder first, if it is one.
        save: file to save the final model in, too.
        page: port of a page that shows it; 0 picks a free one.
        opening: line to print before devices start.
    """
    prepared = prepare(job, folder, fleet, overwrite=overwrite)
    start_and_show(prepared, fleet, as_json=as_json, save=save, page=page, opening=opening)


def start_and_show(
    prepared: PreparedRun,
    fleet: Fleet,
    *,
    as_json: bool,
    save: Path | None = None,
    page: int | None = None,
    opening: str = "",
) -> None:
    """Start a prepared run; shows its progress, then its result. If it is interrupted, says how to go on.

    Args:
        save: file to save the final model in, too.
        page: port of a page that shows it; 0 picks a free one.
        opening: line to print before devices start.
    """
    if save is not None and prepared.plan.job.nested:
        raise ConfigError("--save keeps one model, and this run learns several: find them in its folder, under jobs")
    if opening:
        Console(stderr=as_json).print(opening, highlight=False, soft_wrap=True)
    console, clock = Console(stderr=as_json), _RunClock()
    with (
        ending_by_signal(),
        show_progress(console, prepared.folder.reporting, clock.now) as show,
        _page(prepared.folder.path, page, console),
    ):

        def watch(event: Event, *job: str) -> None:
            clock.see(event)
            show(event, *job)

        try:
            run = prepared.start(fleet, [watch])
        except KeyboardInterrupt:
            line = _how_to_go_on(prepared)
            Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)
            raise
    if save is not None:
        shutil.copyfile(checkpoints.newest_in(run.folder), save)
    _print_result(run, console, as_json=as_json)
    if isinstance(fleet, LiveFleet) and fleet.termination.is_stopping():
        exit_terminated()  # it ended early, with what was learned


def _page(path: Path, port: int | None, console: Console) -> AbstractContextManager[None]:
    """Show a run as a page while the block runs, and print where."""
    if port is None:
        return contextlib.nullcontext()
    return page_beside(path, port, lambda url: console.print(f"page    {url}", highlight=False, soft_wrap=True))


def _how_to_go_on(prepared: PreparedRun) -> str:
    """Say what resumes a run that was interrupted, or where to find what it has learned."""
    path = prepared.folder.path
    says_how = (path / FLEET).exists() or (path / LISTEN).exists()
    if says_how and prepared.plan.topology.can_resume(prepared.plan.job):
        return f"to go on, run\n  {shlex.join(['paceline', 'resume', str(path)])}"
    kept = sorted(path.glob("**/checkpoints/*.safetensors"))
    if not kept:
        return f"no model was kept yet; the record of the run is in {path}"
    return f"this run cannot go on; what it has learned is in {kept[-1].parent}"


def _print_result(run: Run, console: Console, *, as_json: bool) -> None:
    reporting, summary = RunFolder.open(run.folder).reporting, run.summary()
    result = {**reporting.result(run.metrics, summary), "run": str(run.folder), "report": str(run.report())}
    if as_json:
        print(json.dumps(result))
        return
    for line in reporting.conclusion(result, summary):
        console.print(line, highlight=False)
    console.print(f"run     {result['run']}\nreport  {result['report']}", highlight=False, soft_wrap=True)


class _RunClock:
    """Estimates the time of a run: that of its last event, plus the time since that was seen."""

    def __init__(self) -> None:
        self._at = 0.0
        self._seen = time.monotonic()

    def see(self, event: Event) -> None:
        self._at, self._seen = event.at, time.monotonic()

    def now(self) -> float:
        return self._at + time.monotonic() - self._seen
