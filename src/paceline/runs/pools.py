"""One execution of several jobs that share a fleet, kept in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from paceline import config
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.fleets.base import Fleet, PoolLaunch
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.monitor import PoolFolder, PoolSummary, RunFolder, summarise_pool, write_pool_report
from paceline.runs.folders import new_path
from paceline.runs.jobs import Run
from paceline.topologies.events import PhaseStarted
from paceline.topologies.multitask import Admitted, PoolSpec
from paceline.topologies.parallel import Job, Plan, make_plan
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent

PoolEmit: TypeAlias = Callable[[Event, str], None]
"""Who is told of the events of a pool, and of which job each is; of none if it is the pool's."""


@dataclass(frozen=True)
class PoolRun:
    """A run of several jobs that is over.

    Attributes:
        folder: where it is kept.
        jobs: by name.
        spent: paid to learners.
    """

    folder: Path
    jobs: dict[str, Run]
    spent: float

    def summary(self) -> PoolSummary:
        """What happened, in figures."""
        return summarise_pool(PoolFolder.open(self.folder))

    def report(self) -> Path:
        """Write the run's page; returns where it is."""
        return write_pool_report(PoolFolder.open(self.folder))


@dataclass(frozen=True)
class PreparedPool:
    """A run of several jobs whose folder, data and models are ready, and whose fleet is not chosen yet."""

    folder: PoolFolder
    spec: PoolSpec
    jobs: Sequence[tuple[Plan, State]]

    def start(self, fleet: Fleet, watchers: Sequence[PoolEmit] = ()) -> PoolRun:
        """Train on a fleet; blocks until all jobs are over. Watchers are told of each event, and of which job it is."""
        records = _PoolRecords(self.folder, watchers)

        def admit(tables: dict[str, Any]) -> Admitted:
            try:
                plan, state = make_plan(config.parse_submitted(tables, self.spec.allocation))
                self.spec.check_size(plan.terms.model_bytes)
                return records.admit(plan, state)
            except ConfigError as error:
                raise ValueError(str(error)) from error

        with self.folder:
            launch = PoolLaunch(
                emit=records.emit,
                spec=self.spec,
                jobs=[records.admit(plan, state) for plan, state in self.jobs],
                admit=admit,
            )
            pool = fleet.run(launch)
        jobs = {
            name: Run(self.folder.path / "jobs" / name, course.state, course.num_closed, course.loss, course.accuracy)
            for name, course in pool.courses.items()
        }
        return PoolRun(self.folder.path, jobs, pool.ledger.spent)


class _PoolRecords:
    """Where the events of a pool and of its jobs go."""

    def __init__(self, folder: PoolFolder, watchers: Sequence[PoolEmit]) -> None:
        self._folder = folder
        self._watchers = watchers
        self._jobs: dict[str, RunFolder] = {}

    def admit(self, plan: Plan, state: State) -> Admitted:
        """Make a folder for a job; raises `ConfigError` if there is one of that name."""
        name = plan.job.name
        if name in self._jobs:
            raise ConfigError(f"there is a job {name!r} in this pool already; names must differ")
        folder = self._jobs[name] = self._folder.job(name, plan.job.described())

        def save(round: int, state: State) -> None:
            checkpoints.save(folder.checkpoints, round, state)

        return Admitted(
            plan=plan,
            state=state,
            emit=lambda event: self._tell(event, name),
            save=save,
        )

    def emit(self, event: Event) -> None:
        """Events of the pool; those that learners tell may be of a job."""
        job = event.job if isinstance(event, (DeviceMeasured, PhaseStarted, RoundSpent)) else ""
        self._tell(event, job if job in self._jobs else "")

    def _tell(self, event: Event, job: str) -> None:
        (self._jobs[job] if job else self._folder).record(event)
        for watcher in self._watchers:
            watcher(event, job)


def train_pool(
    spec: PoolSpec,
    jobs: Sequence[Job],
    fleet: Fleet,
    *,
    folder: Path | str | None = None,
    watchers: Sequence[PoolEmit] = (),
) -> PoolRun:
    """Train several jobs at once on a fleet; blocks until all are over.

    Args:
        jobs: with names that differ.
        folder: a new folder for the run; by default one named for the moment, in ``runs``.
        watchers: are told of each event, and of which job it is.
    """
    return prepare_pool(spec, jobs, folder).start(fleet, watchers)


def prepare_pool(spec: PoolSpec, jobs: Sequence[Job], folder: Path | str | None = None) -> PreparedPool:
    """Load the data of a new run of several jobs, build the models and make its folder."""
    unnamed = [job for job in jobs if not job.name]
    if unnamed or len({job.name for job in jobs}) < len(jobs):
        raise ConfigError(f"jobs are called {[job.name for job in jobs]}; in a pool each needs a name of its own")
    pooled = [msgspec.structs.replace(job, allocation=spec.allocation) for job in jobs]
    plans = [make_plan(job) for job in pooled]
    path = new_path(folder)
    return PreparedPool(PoolFolder.create(path.parent, path.name, spec.described()), spec, plans)
