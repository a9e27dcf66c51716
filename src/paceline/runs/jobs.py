"""One execution of a job on a fleet, kept in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline import config
from paceline.errors import ConfigError
from paceline.events import Emit, Event
from paceline.fleets.base import Fleet, JobLaunch
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.monitor import PoolFolder, RunFolder, Summary, summarise, write_report
from paceline.runs.folders import new_path
from paceline.topologies.parallel import Job, Plan, make_plan
from paceline.topologies.parallel.events import RoundClosed


@dataclass(frozen=True)
class Run:
    """A run that is over.

    Attributes:
        folder: where it is kept.
        state: the parameters that were learned, by name.
    """

    folder: Path
    state: State
    rounds: int
    loss: float | None
    accuracy: float | None

    def summary(self) -> Summary:
        """What happened, in figures."""
        return summarise(RunFolder.open(self.folder).events())

    def report(self) -> Path:
        """Write the run's page; returns where it is."""
        return write_report(RunFolder.open(self.folder))


@dataclass(frozen=True)
class PreparedRun:
    """A run whose folder, data and model are ready, and whose fleet is not chosen yet."""

    folder: RunFolder
    plan: Plan
    state: State
    first_round: int = 1
    started_at: float = 0.0

    def start(self, fleet: Fleet, watchers: Sequence[Emit] = ()) -> Run:
        """Train on a fleet; blocks until the run is over. Watchers are told of each event."""

        def emit(event: Event) -> None:
            self.folder.record(event)
            for watcher in watchers:
                watcher(event)

        def save(round: int, state: State) -> None:
            checkpoints.save(self.folder.checkpoints, round, state)

        launch = JobLaunch(
            plan=self.plan,
            state=self.state,
            emit=emit,
            save=save,
            first_round=self.first_round,
            started_at=self.started_at,
        )
        with self.folder:
            orchestrator = fleet.run(launch)
        ended = orchestrator.ended
        assert ended is not None
        return Run(self.folder.path, orchestrator.state, ended.rounds, ended.loss, ended.accuracy)


def train(job: Job, fleet: Fleet, *, folder: Path | str | None = None, watchers: Sequence[Emit] = ()) -> Run:
    """Train a job on a fleet; blocks until the run is over.

    Args:
        folder: a new folder for the run; by default one named for the moment, in ``runs``.
        watchers: are told of each event.
    """
    return prepare(job, folder).start(fleet, watchers)


def prepare(job: Job, folder: Path | str | None = None) -> PreparedRun:
    """Load a new run's data, build its model and make its folder."""
    plan, state = make_plan(job)  # first: what is wrong with the job should leave no folder behind
    path = new_path(folder)
    return PreparedRun(RunFolder.create(path.parent, path.name, job.described()), plan, state)


def reopen(folder: Path | str) -> PreparedRun:
    """Make an interrupted run ready to go on; at most the round that was open is lost."""
    if PoolFolder.is_at(Path(folder)):
        raise ConfigError(
            f"{folder} is the run of a pool, which cannot be resumed; the checkpoints of its jobs are kept"
        )
    kept = RunFolder.open(Path(folder))
    job = config.parse_job(kept.job, f"{folder}/job.json")
    done = [event for event in kept.events() if isinstance(event, RoundClosed)]
    if done and done[-1].round >= job.rounds:
        raise ConfigError(f"{folder}: all {job.rounds} rounds are done; there is nothing to resume")
    if done and job.is_reached_by(done[-1].accuracy):
        raise ConfigError(f"{folder}: target_accuracy, {job.target_accuracy}, is reached; there is nothing to resume")
    plan, state = make_plan(job)
    last = kept.reopen()
    if last.round:
        state = checkpoints.load(kept.checkpoints, last.round)
    return PreparedRun(kept, plan, state, last.round + 1, last.at)
