"""Trials of gossip, on virtual time, and the rows that they give: one for each time that models were compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from paceline.events import Event
from paceline.fleets.peers import GossipLaunch
from paceline.fleets.virtual_peers import VirtualPeers
from paceline.learning.points import PointsSpec
from paceline.reproduction.gossip.setting import Case, devices_of, ground_of, job_of
from paceline.reproduction.rows import Row
from paceline.topologies.gossip.events import ConsensusMeasured, EpochEnded

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, kw_only=True)
class GossipTrial:
    """What a run gave."""

    case: Case
    events: list[Event]

    def told(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def seconds(self) -> float:
        """From the start, with benchmarks and aggregation, until the last platform has trained its last epoch."""
        return max(event.at for event in self.told(EpochEnded))

    @property
    def ranking(self) -> float:
        """Of the time of all platforms in their epochs, the part that they rank points, in percent."""
        ended = self.told(EpochEnded)
        return 100 * sum(event.rank_seconds for event in ended) / sum(event.seconds for event in ended)

    @property
    def trained(self) -> float:
        """Of what all platforms have, times epochs, the part that they trained, in percent."""
        size = self.case.size
        return 100 * sum(event.num_samples for event in self.told(EpochEnded)) / (size.num_samples * size.epochs)


def play(case: Case, rules: Mapping[str, Any], *, is_time_only: bool = False) -> GossipTrial:
    """One trial; if it is time only, nothing is learned."""
    ground = ground_of(case.workload, case.size, case.seed)
    job = job_of(case, rules, ground.job.data)
    events: list[Event] = []
    plan = replace(ground, job=job, task=msgspec.structs.replace(ground.task, optimizer=job.optimizer))
    devices = devices_of(case, (job.points or PointsSpec()).reduction)
    VirtualPeers(devices, is_time_only=is_time_only).run(GossipLaunch(plan=plan, emit=events.append))
    return GossipTrial(case=case, events=events)


def learning_rows(case: Case, scheme: str, rules: Mapping[str, Any], part: str = "learning") -> Iterator[Row]:
    """With gradients: a row whenever each platform has, on average, trained another epoch."""
    trial = play(case, rules)
    for number, event in enumerate(trial.told(ConsensusMeasured), 1):
        assert event.accuracy is not None
        yield _row(trial, part, scheme, number, event.at, round(100 * event.accuracy, 4))


def time_row(case: Case, scheme: str, rules: Mapping[str, Any], part: str = "time") -> Row:
    """Without gradients, which times do not depend on; only the ranks of points, and so what is kept, a little."""
    trial = play(case, rules, is_time_only=True)
    return _row(trial, part, scheme, case.size.epochs, trial.seconds, None)


def _row(trial: GossipTrial, part: str, scheme: str, epoch: int, at: float, accuracy: float | None) -> Row:
    case = trial.case
    return {
        "part": part,
        "workload": case.workload,
        "scheme": scheme,
        "platforms": len(case.speeds),
        "unbalance": round(max(case.speeds) / min(case.speeds), 6),
        "link": case.link,
        "epoch": epoch,
        "seconds": round(at, 4),
        "accuracy": accuracy,
        "run_seconds": round(trial.seconds, 4),
        "ranking": round(trial.ranking, 4),
        "trained": round(trial.trained, 4),
    }
