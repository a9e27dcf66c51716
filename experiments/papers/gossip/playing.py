"""Trials of gossip, on virtual time, and the rows that they give: one for each time that models were compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from paceline.fleets.virtual import VirtualFleet
from paceline.learning.aggregated_points import PointsSpec
from paceline.topologies.gossip.events import ConsensusMeasured, EpochEnded
from paceline.topologies.gossip.topology import GossipPlan
from papers.gossip.setting import Case, base_job, devices_of, job_of
from reproduction.rows import Row
from reproduction.trials import Trial, play


@dataclass(frozen=True, kw_only=True)
class GossipTrial(Trial):
    """A run of a gossip job."""

    case: Case

    @property
    def seconds(self) -> float:
        """Seconds from the start, benchmarks and aggregation included, until all platforms have trained all epochs."""
        return max(event.at for event in self.events_of(EpochEnded))

    @property
    def ranking(self) -> float:
        """Share of all platforms' epoch time that goes to ranking points, in percent."""
        ended = self.events_of(EpochEnded)
        return 100 * sum(event.rank_seconds for event in ended) / sum(event.seconds for event in ended)

    @property
    def trained(self) -> float:
        """Share of all platforms' samples, times epochs, that was trained, in percent."""
        size = self.case.size
        return 100 * sum(event.num_samples for event in self.events_of(EpochEnded)) / (size.num_samples * size.epochs)


def play_case(case: Case, rules: Mapping[str, Any], *, is_time_only: bool = False) -> GossipTrial:
    """Run one trial; if it is time only, nothing is learned."""
    base = base_job(case.workload, case.size, case.seed)
    job = job_of(case, rules, base.job.data)
    prepared = replace(base, job=job, training=msgspec.structs.replace(base.training, optimizer=job.optimizer))
    devices = devices_of(case, (job.points or PointsSpec()).reduction)
    trial = play(GossipPlan(prepared), VirtualFleet(devices, is_time_only=is_time_only))
    return GossipTrial(case=case, events=trial.events)


def learning_rows(case: Case, scheme: str, rules: Mapping[str, Any], part: str = "learning") -> Iterator[Row]:
    """Train with gradients, and yield a row whenever each platform has, on average, trained another epoch."""
    trial = play_case(case, rules)
    for number, event in enumerate(trial.events_of(ConsensusMeasured), 1):
        assert event.scores is not None
        yield _row(trial, part, scheme, number, event.at, round(100 * event.scores.metrics["accuracy"], 4))


def time_row(case: Case, scheme: str, rules: Mapping[str, Any], part: str = "time") -> Row:
    """Run without gradients; times do not depend on them, but for the ranks of points, a little."""
    trial = play_case(case, rules, is_time_only=True)
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
