"""A job while it is in a pool: its team, what it failed on, and whether it is to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from paceline.allocation import Allocation, Placement
from paceline.topologies.base import JobProgress
from paceline.topologies.parallel.events import RunEndReason
from paceline.topologies.parallel.job_training import JobTraining

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

    def is_barred_to(self, learner: str) -> bool:
        """Return whether its training has failed too often on a learner."""
        return self.failures[learner] >= _MAX_TRIES

    def has_failed(self, there: Collection[str]) -> bool:
        """Return whether no learner is left to try it on, or so many failed, and none succeeded, that none will."""
        barred = {name for name in self.failures if self.is_barred_to(name)}
        return barred.issuperset(there) or (len(barred) >= _ENOUGH_FAILED and not self.trained_by - barred)
