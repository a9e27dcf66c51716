"""One way in: train a job of any kind on any fleet, and keep the run in a folder."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from paceline import topologies
from paceline.errors import ConfigError
from paceline.events import Emit, Event
from paceline.fleets.base import Fleet
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.report import RunFolder, Summary, write_report
from paceline.topologies.base import Environment, JobSpec, Outcome, Plan, Save
from paceline.topologies.job_files import parse_job

RUNS = Path("runs")
"""Where runs are kept if nothing else is said."""

FINAL = "final"
"""Name of the checkpoint of what a run learned, where rounds have none of their own."""

Watcher: TypeAlias = Callable[..., None]
"""Receives each event of a run; of a job with further jobs in it also the name of the job that it belongs to."""


@dataclass(frozen=True)
class Run:
    """A run that is over.

    Attributes:
        folder: where it is kept.
        state: what was learned, by name; empty where there are several jobs.
        metrics: final figures, such as ``loss`` and ``accuracy``.
        jobs: the runs of its jobs, by name, where there are several.
    """

    folder: Path
    state: State
    metrics: Mapping[str, Any]
    jobs: Mapping[str, Run] = field(default_factory=dict)

    @property
    def loss(self) -> float | None:
        """Loss on the test data; None if it was not measured."""
        return self.metrics.get("loss")

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the test data, as a ratio; None if it was not measured."""
        return self.metrics.get("accuracy")

    def summary(self) -> Summary:
        """Sum up what happened, in figures and tables."""
        return RunFolder.open(self.folder).summary()

    def report(self) -> Path:
        """Write the run's page; returns where it is."""
        return write_report(RunFolder.open(self.folder))

    def model(self) -> nn.Module:
        """Build the model that was learned; raises `ConfigError` if there is no single one."""
        return load_model(self.folder)


@dataclass(frozen=True)
class PreparedRun:
    """A run whose folder, data and model are ready, and whose fleet is not chosen yet."""

    folder: RunFolder
    plan: Plan[Any]
    started_at: float = 0.0

    def start(self, fleet: Fleet, watchers: Sequence[Watcher] = ()) -> Run:
        """Train on a fleet; blocks until the run is over. Watchers receive each event."""
        job = self.plan.job

        def open_nested(nested: JobSpec) -> tuple[Emit, Save]:
            name = str(getattr(nested, "name", ""))
            folder = self.folder.create_job(name, nested.described())
            return _emit_to(folder, [lambda event: _pass_on(event, watchers, name)]), _save_in(folder)

        def watch(event: Event) -> None:
            _pass_on(event, watchers, *([""] if job.nested else []))

        with self.folder:
            env = Environment(emit=_emit_to(self.folder, [watch]), save=_save_in(self.folder), open_nested=open_nested)
            outcome = fleet.run(self.plan, env, self.started_at)
        return _run(self.folder.path, outcome)


def train(job: JobSpec, fleet: Fleet, *, folder: Path | str | None = None, watchers: Sequence[Watcher] = ()) -> Run:
    """Train a job on a fleet; blocks until the run is over.

    Args:
        folder: a new folder for the run; by default one named for the moment, in ``runs``.
        watchers: receive each event.
    """
    return prepare(job, folder, fleet).start(fleet, watchers)


def prepare(job: JobSpec, folder: Path | str | None = None, fleet: Fleet | None = None) -> PreparedRun:
    """Load a new run's data, build its model and make its folder; checks the fleet, too, if it is given."""
    plan = topologies.of_job(job).prepare(job)  # first: what is wrong with the job should leave no folder behind
    if fleet is not None:
        fleet.check(plan)
    path = RUNS / datetime.datetime.now().strftime("%Y%m%d-%H%M%S") if folder is None else Path(folder)
    return PreparedRun(RunFolder.create(path.parent, path.name, job.described()), plan)


def reopen(folder: Path | str) -> PreparedRun:
    """Make an interrupted run ready to go on; at most the round that was open is lost."""
    kept = RunFolder.open(Path(folder))
    job = parse_job(kept.settings, str(folder))

    def load(round: int) -> State:
        return checkpoints.load(kept.checkpoints, round)

    try:
        plan = kept.topology.resume(job, kept.topology.events_to_keep(list(kept.events())), load)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from error
    before = kept.reopen()
    return PreparedRun(kept, plan, max((event.at for event in before), default=0.0))


def load_model(folder: Path | str) -> nn.Module:
    """Build the model that a run learned; raises `ConfigError` if it learned no single one. Its data must be there."""
    kept = RunFolder.open(Path(folder))
    final, rounds = kept.checkpoints / f"{FINAL}.safetensors", checkpoints.rounds(kept.checkpoints)
    if not final.exists() and not rounds:
        raise ConfigError(f"{folder}: nothing was learned in this run, or it was not kept")
    plan = kept.topology.prepare(parse_job(kept.settings, str(folder)))
    state = checkpoints.read(final) if final.exists() else checkpoints.load(kept.checkpoints, rounds[-1])
    try:
        return plan.model(state, kept.events())
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from error


def _run(folder: Path, outcome: Outcome) -> Run:
    jobs = {name: _run(folder / "jobs" / name, one) for name, one in outcome.jobs.items()}
    return Run(folder, outcome.state, outcome.metrics, jobs)


def _emit_to(folder: RunFolder, watchers: Sequence[Emit]) -> Emit:
    def emit(event: Event) -> None:
        folder.record(event)
        for watcher in watchers:
            watcher(event)

    return emit


def _save_in(folder: RunFolder) -> Save:
    def save(key: int | str, state: State) -> None:
        if isinstance(key, int):
            checkpoints.save(folder.checkpoints, key, state)
        else:
            checkpoints.write(folder.checkpoints / f"{key}.safetensors", state)

    return save


def _pass_on(event: Event, watchers: Sequence[Watcher], *job: str) -> None:
    for watcher in watchers:
        watcher(event, *job)
