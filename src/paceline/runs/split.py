"""One execution of a split job, kept in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from paceline import config
from paceline.devices.energy import MakeMeter
from paceline.errors import ConfigError
from paceline.events import Emit, Event
from paceline.fleets.base import SplitLaunch
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.learning.segments import SplitModel, assembled
from paceline.monitor import SplitFolder, SplitSummary, summarise_split, write_split_report
from paceline.runs.folders import new_path
from paceline.topologies.split import SplitJob, SplitPlan, Trunk, make_plan

_FINAL = "final.safetensors"


class NodeFleet(Protocol):
    """Where a trunk and its sources run: on virtual time, or any fleet of learners."""

    def run(self, launch: SplitLaunch) -> Trunk:
        """Train all epochs; blocks until the run is over, and returns its trunk."""


@dataclass(frozen=True)
class SplitRun:
    """A run of a split job that is over.

    Attributes:
        folder: where it is kept.
        state: all that was learned, by name: ``branches.<source>.…`` and ``head.…``; ``sources.<source>.…`` where each
            has a model of its own; or the one model of the trunk.
    """

    folder: Path
    state: State
    epochs: int
    loss: float | None
    accuracy: float | None

    def summary(self) -> SplitSummary:
        """What happened, in figures."""
        return summarise_split(SplitFolder.open(self.folder).events())

    def report(self) -> Path:
        """Write the run's page; returns where it is."""
        return write_split_report(SplitFolder.open(self.folder))

    def model(self) -> SplitModel:
        """All parts in one place; see `load_split_model`."""
        return load_split_model(self.folder)


@dataclass(frozen=True)
class PreparedSplit:
    """A split run whose folder, data and model are ready, and whose nodes are not chosen yet."""

    folder: SplitFolder
    plan: SplitPlan

    def start(self, fleet: NodeFleet, watchers: Sequence[Emit] = (), make_meter: MakeMeter | None = None) -> SplitRun:
        """Train on a fleet; blocks until the run is over.

        Args:
            watchers: are told of each event.
            make_meter: tells what the trunk takes in real time; None for the default power model.
        """

        def emit(event: Event) -> None:
            self.folder.record(event)
            for watcher in watchers:
                watcher(event)

        def save(epoch: int, state: State) -> None:
            checkpoints.write(self.folder.checkpoints / _FINAL, state)

        launch = SplitLaunch(plan=self.plan, emit=emit, save=save)
        if make_meter is not None:
            launch = replace(launch, make_meter=make_meter)
        with self.folder:
            trunk = fleet.run(launch)
        ended = trunk.ended
        assert ended is not None
        return SplitRun(self.folder.path, trunk.state, ended.epochs, ended.loss, ended.accuracy)


def train_split(
    job: SplitJob, fleet: NodeFleet, *, folder: Path | str | None = None, watchers: Sequence[Emit] = ()
) -> SplitRun:
    """Train a split job on a fleet; blocks until the run is over.

    Args:
        fleet: `VirtualNodes`, or a fleet whose devices are sources: `LocalFleet`, `TestbedFleet`.
        folder: a new folder for the run; by default one named for the moment, in ``runs``.
        watchers: are told of each event.
    """
    return prepare_split(job, folder).start(fleet, watchers)


def load_split_model(folder: Path | str) -> SplitModel:
    """What a run learned, put together again: from what sources see of samples, by name, to logits.

    Raises `ConfigError` if it is not over, or is of a scheme without a junction. The run's data must still be there.
    """
    kept = SplitFolder.open(Path(folder))
    job = config.parse_split(kept.job, str(folder))
    if job.scheme != "fpl":
        raise ConfigError(f"{folder} is a run of {job.scheme}, whose parts are no single model; only those of fpl are")
    chosen = summarise_split(kept.events()).cut
    state = checkpoints.read(kept.checkpoints / _FINAL)
    plan = make_plan(job)
    return assembled(plan.task, job.cut if chosen is None else chosen.cut, job.junction, state)


def prepare_split(job: SplitJob, folder: Path | str | None = None) -> PreparedSplit:
    """Load the data of a new split run, build its model and make its folder."""
    plan = make_plan(job)  # first: what is wrong with the job should leave no folder behind
    path = new_path(folder)
    return PreparedSplit(SplitFolder.create(path.parent, path.name, job.described()), plan)
