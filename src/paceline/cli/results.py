"""What commands that run a job have in common: watching it, and telling what came of it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from paceline import config, runs
from paceline.devices.energy import MakeMeter
from paceline.events import Emit, Event
from paceline.fleets.base import Fleet
from paceline.fleets.peers import PeerFleet
from paceline.learning import checkpoints
from paceline.monitor import GossipLines, PoolLines, SplitLines, watcher
from paceline.runs import NodeFleet, PoolRun, PreparedSplit, Run
from paceline.topologies.gossip import GossipJob
from paceline.topologies.split import SplitJob


class _RunClock:
    """The time of a run, as far as its events tell: the last one's, and what has passed since."""

    def __init__(self) -> None:
        self._at = 0.0
        self._seen = time.monotonic()

    def tell(self, event: Event) -> None:
        self._at, self._seen = event.at, time.monotonic()

    def now(self) -> float:
        return self._at + time.monotonic() - self._seen


def play_gossip(
    job: GossipJob, fleet: PeerFleet, folder: Path | None, *, as_json: bool, save: Path | None = None
) -> None:
    """Run a gossip job on a fleet of peers, or on one; shows it meanwhile, and what came of it."""
    console = Console(stderr=as_json)
    run = runs.prepare_gossip(job, folder).start(fleet, [GossipLines(console).tell])
    if save is not None:
        checkpoints.write(save, run.state)
    told = {
        "accuracy": run.accuracy,
        "loss": run.loss,
        "averaged": run.averaged,
        "run": str(run.folder),
        "report": str(run.report()),
    }
    if as_json:
        print(json.dumps(told))
        return
    accuracy = "" if run.accuracy is None else f"accuracy {run.accuracy:.1%}: "
    living = "1 living peer" if len(run.averaged) == 1 else f"{len(run.averaged)} living peers"
    console.print(f"{accuracy}the average of {living}", highlight=False)
    console.print(f"run     {told['run']}\nreport  {told['report']}", highlight=False, soft_wrap=True)


def play_split(job: SplitJob, fleet: NodeFleet, folder: Path | None, *, as_json: bool) -> None:
    """Run a split job on a fleet; shows it meanwhile, and what came of it."""
    show_split(runs.prepare_split(job, folder), fleet, Console(stderr=as_json), None, as_json=as_json)


def show_split(
    prepared: PreparedSplit, fleet: NodeFleet, console: Console, make_meter: MakeMeter | None, *, as_json: bool
) -> None:
    """The same, of a run that is prepared, whose trunk is metered so."""
    run = prepared.start(fleet, [SplitLines(console).tell], make_meter)
    told = {
        "accuracy": run.accuracy,
        "loss": run.loss,
        "epochs": run.epochs,
        "run": str(run.folder),
        "report": str(run.report()),
    }
    if as_json:
        print(json.dumps(told))
        return
    accuracy = "" if run.accuracy is None else f"accuracy {run.accuracy:.1%} after "
    console.print(f"{accuracy}{run.epochs} epochs", highlight=False)
    console.print(f"run     {told['run']}\nreport  {told['report']}", highlight=False, soft_wrap=True)


def play(path: Path, fleet: Fleet, folder: Path | None, *, as_json: bool) -> None:
    """Run the job, the pool or the split job in a file on a fleet; shows it meanwhile, and what came of it."""
    console = Console(stderr=as_json)
    if config.is_split(path):
        play_split(config.load_split(path), fleet, folder, as_json=as_json)
        return
    if config.is_pool(path):
        pool = runs.prepare_pool(*config.load_pool(path), folder).start(fleet, [PoolLines(console).tell])
        show_pool(pool, console, as_json=as_json)
        return
    prepared = runs.prepare(config.load_job(path), folder)
    with watching(console) as watch:
        run = prepared.start(fleet, [watch])
    show(run, console, as_json=as_json)


@contextlib.contextmanager
def watching(console: Console) -> Iterator[Emit]:
    """Show a run while it runs: a live table on a terminal, plain lines elsewhere."""
    clock = _RunClock()
    with watcher(console, clock.now) as tell:

        def emit(event: Event) -> None:
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


def describe_pool(run: PoolRun) -> dict[str, Any]:
    """The result of a pool as plain data; writes its report."""
    summary = run.summary()
    return {
        "jobs": {
            job.name: {
                "accuracy": run.jobs[job.name].accuracy,
                "loss": run.jobs[job.name].loss,
                "rounds": run.jobs[job.name].rounds,
                "training_seconds": job.training_seconds,
                "satisfaction": job.satisfaction,
                "fulfilment": job.fulfilment,
                "drop_rate": job.drop_rate,
                "occupancy": job.occupancy,
            }
            for job in summary.jobs
        },
        "spent": run.spent,
        "run": str(run.folder),
        "report": str(run.report()),
    }


def show_pool(run: PoolRun, console: Console, *, as_json: bool) -> None:
    """Print the result of a pool."""
    told = describe_pool(run)
    if as_json:
        print(json.dumps(told))
        return
    for name, job in told["jobs"].items():
        accuracy = "" if job["accuracy"] is None else f"accuracy {job['accuracy']:.1%} after "
        figures = "" if job["fulfilment"] is None else f"; {job['fulfilment']:.1%} of its data trained"
        console.print(f"{name}: {accuracy}{job['rounds']} rounds{figures}", highlight=False)
    console.print(f"paid    {told['spent']:.2f}", highlight=False)
    console.print(f"run     {told['run']}\nreport  {told['report']}", highlight=False, soft_wrap=True)


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{ratio:+.1%}"
