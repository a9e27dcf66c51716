"""One execution of a gossip job, kept in a folder: of a whole fleet of peers, or of one peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import paceline
from paceline.events import Emit, Event
from paceline.fleets.peers import GossipLaunch, PeerFleet
from paceline.learning import checkpoints
from paceline.learning.averaging import State
from paceline.monitor import GossipFolder, GossipSummary, summarise_gossip, write_gossip_report
from paceline.runs.folders import new_path
from paceline.topologies.gossip import GossipJob, GossipPlan, make_plan
from paceline.topologies.gossip.events import GossipEnded, GossipStarted


@dataclass(frozen=True)
class GossipRun:
    """A run without a server that is over.

    Attributes:
        folder: where it is kept.
        state: the average of what the living peers learned, by name.
        averaged: who those are.
    """

    folder: Path
    state: State
    averaged: tuple[str, ...]
    loss: float | None
    accuracy: float | None

    def summary(self) -> GossipSummary:
        """What happened, in figures."""
        return summarise_gossip(GossipFolder.open(self.folder).events())

    def report(self) -> Path:
        """Write the run's page; returns where it is."""
        return write_gossip_report(GossipFolder.open(self.folder))


@dataclass(frozen=True)
class PreparedGossip:
    """A gossip run whose folder, data and model are ready, and whose peers are not chosen yet."""

    folder: GossipFolder
    plan: GossipPlan

    def start(self, fleet: PeerFleet, watchers: Sequence[Emit] = ()) -> GossipRun:
        """Train on a fleet of peers; blocks until the run is over. Watchers are told of each event."""
        last_at = 0.0

        def emit(event: Event) -> None:
            nonlocal last_at
            last_at = event.at
            self.folder.record(event)
            for watcher in watchers:
                watcher(event)

        plan = self.plan
        with self.folder:
            emit(
                GossipStarted(
                    at=0.0,
                    job=plan.job.described(),
                    clock=fleet.clock,
                    num_parameters=plan.num_parameters,
                    paceline=paceline.__version__,
                )
            )
            concluded = fleet.run(GossipLaunch(plan=plan, emit=emit, models=self.folder.checkpoints))
            loss, accuracy = plan.evaluate(concluded.parameters) if fleet.is_trained else (None, None)
            emit(GossipEnded(at=last_at, averaged=concluded.averaged, loss=loss, accuracy=accuracy))
            state = plan.state(concluded.parameters)
            checkpoints.write(self.folder.checkpoints / "final.safetensors", state)
        return GossipRun(self.folder.path, state, concluded.averaged, loss, accuracy)


def train_gossip(
    job: GossipJob, fleet: PeerFleet, *, folder: Path | str | None = None, watchers: Sequence[Emit] = ()
) -> GossipRun:
    """Train a gossip job on a fleet of peers; blocks until the run is over.

    Args:
        folder: a new folder for the run; by default one named for the moment, in ``runs``.
        watchers: are told of each event.
    """
    return prepare_gossip(job, folder).start(fleet, watchers)


def prepare_gossip(job: GossipJob, folder: Path | str | None = None) -> PreparedGossip:
    """Load the data of a new gossip run, build its model and make its folder."""
    plan = make_plan(job)  # first: what is wrong with the job should leave no folder behind
    path = new_path(folder)
    return PreparedGossip(GossipFolder.create(path.parent, path.name, job.described()), plan)
