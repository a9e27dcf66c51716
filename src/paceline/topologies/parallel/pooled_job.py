"""A job while it is in a pool: its team, what it failed on, and whether it is to end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from paceline.allocation import Allocation, Placement
from paceline.topologies.base import JobProgress
from paceline.topologies.parallel.events import RunEndReason
from paceline.topologies.parallel.job_training import JobTraining
from paceline.topologies.parallel.reserve import ShardReserve, Taker

_MAX_TRIES = 2  # of a job on one learner: what failed once may have been the device's fault
_ENOUGH_FAILED = 3  # learners on which a job failed, if it never worked on another: then the fault is its own


@dataclass
class PooledJob:
    """A job while it is in a pool.

    Attributes:
        team: its learners, and what they train in a round.
        spare: sum that a round may cost beyond what is planned, since others may do the work.
        is_over: whether there is no further round.
        is_in_rounds: whether its rounds run, so that it can only end between two of them.
        end_reason: why it is to end as soon as it can, and `end_detail` in words; None if it is not.
        failures: how often its training has failed, by learner.
        trained_by: learners whose updates counted.
    """

    name: str
    training: JobTraining
    team: dict[str, Placement] = field(default_factory=dict)
    spare: float = 0.0
    is_over: bool = False
    is_in_rounds: bool = False
    end_reason: RunEndReason | None = None
    end_detail: str = ""
    failures: Counter[str] = field(default_factory=Counter)
    trained_by: set[str] = field(default_factory=set)

    @property
    def progress(self) -> JobProgress:
        """Progress of the job."""
        status: Literal["over", "running", "waiting"] = (
            "over" if self.is_over else "running" if self.team else "waiting"
        )
        reason = f"{self.end_reason}: {self.end_detail}" if self.end_detail else self.end_reason or ""
        progress = self.training.progress(status, len(self.team))
        return msgspec.structs.replace(progress, reason=reason if self.is_over else "")

    @property
    def allocation(self) -> dict[str, Allocation]:
        """Shards and local epochs of each of its learners."""
        local_epochs = self.training.prepared.terms.local_epochs
        return {name: Allocation(placement.num_shards, local_epochs) for name, placement in self.team.items()}

    def portioned(
        self, prices: Mapping[str, float], held_share: float, budget: float
    ) -> tuple[dict[str, Allocation], ShardReserve | None]:
        """Return what each of the team gets as a round opens, and the reserve of what is held back.

        Args:
            prices: prices of those of the team who are there.
            budget: sum that the round may cost.
        """
        first = self.allocation
        if not held_share or len(prices) < 2:
            return first, None
        takers, num_held = {}, 0
        for name, price in prices.items():
            placement = self.team[name]
            num_first = math.ceil((1 - held_share) * placement.num_shards)
            num_held += placement.num_shards - num_first
            first[name] = Allocation(num_first, first[name].local_epochs)
            takers[name] = Taker(
                num_shards=num_first,
                num_last=num_first,
                shard_seconds=placement.shard_seconds,
                price=price,
                began_at=placement.fixed_seconds,
            )
        due_seconds = self.training.prepared.job.deadline_seconds
        return first, ShardReserve(num_held, takers, budget=budget, due_seconds=due_seconds)

    def is_barred_to(self, learner: str) -> bool:
        """Return whether its training has failed too often on a learner."""
        return self.failures[learner] >= _MAX_TRIES

    def has_failed(self, there: Collection[str]) -> bool:
        """Return whether no learner is left to try it on, or so many failed, and none succeeded, that none will."""
        barred = {name for name in self.failures if self.is_barred_to(name)}
        return barred.issuperset(there) or (len(barred) >= _ENOUGH_FAILED and not self.trained_by - barred)
