"""What learners do at this moment, by the events of their jobs."""

from __future__ import annotations

from collections.abc import Collection

from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, PhaseStarted
from paceline.topologies.parallel import events
from paceline.topologies.reporting.fleet_now import HALTED, LATE, REFUSED, FleetNow
from paceline.topologies.reporting.tables import Table

_WORKING = "working"  # of those that do not say at what


class LearnersNow(FleetNow):
    """Follows learners in the rounds of one job, or of several."""

    def __init__(self) -> None:
        super().__init__(("benchmark", "download", "train", "upload", _WORKING), amount="shards")

    def feed(self, event: Event, job: str = "", placed: Collection[str] | None = None) -> None:
        """Take an event into account.

        Args:
            job: name of the job in a pool that it belongs to, and who is `placed` there.
        """
        match event:
            case PhaseStarted():
                self.turn(event.learner, event.phase, event.round, event.at)
            case events.ShardsTaken():
                self.take(event.learner, event.round, event.at, event.seconds, event.num_shards, job)
            case events.ShardsAdded():
                self.add(event.learner, event.round, event.num_shards)
            case events.UpdateAccepted():
                self.arrive(event.learner, event.round, event.seconds, event.num_samples)
            case events.UpdateKept():
                self.arrive(event.learner, event.round, event.seconds, event.num_samples, LATE)
            case events.UpdateRefused(seconds=float(seconds), is_late=is_late):
                self.arrive(event.learner, event.round, seconds, None, LATE if is_late else REFUSED)
            case events.RoundSpent(is_halted=True, is_accepted=True):
                self.mark(event.learner, event.round, HALTED)
            case events.UpdateAudited(is_honest=False) | events.UpdateLimited(part=0.0):
                self.mark(event.learner, event.round, REFUSED)
            case events.RoundOpened():
                self.open(event.round, event.at, event.deadline_seconds, job, event.drawn or placed)
            case events.RoundClosed():
                self.close(event.round, event.at, event.late, job)
            case LearnerJoined():
                self.join(event.learner)
            case LearnerLeft():
                self.leave(event.learner, event.at)


def notices_on(now: Table) -> list[str]:
    """Say what is not shown of devices that joined over the network."""
    if not any(record[_WORKING] or record["doing"] == _WORKING for record in now.records()):
        return []
    return [
        "Devices keep to themselves when they download, train and upload: the page shows when they took work, and when "
        "it came back."
    ]
