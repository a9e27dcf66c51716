"""A job of the parallel topology: model, data and rules."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from paceline import allocation
from paceline.allocation import AdaptiveDabAllocation, AllocationPolicy
from paceline.allocation.base import MAX_OVERTIME
from paceline.learning.averaging import AggregationSpec
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.tasks import OptimizerSpec

TABLES = ("model", "optimizer", "data", "allocation", "aggregation")
"""Fields of a job that are tables of their own in a job file; the others are its [job] table."""


JOB_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is trained, on what, and by which rules.

    Attributes:
        name: what it is called where there are several; else it may stay empty.
        rounds: how many there are.
        deadline_seconds: how long each may take.
        overtime: how far past its deadline a round waits for updates, as a ratio of it. At 0, it closes at the deadline
            and training halts in time for that; else, it waits so long, and all that was taken is trained.
        local_epochs: passes of each learner over its shards.
        batch_size: samples per minibatch.
        seed: of everything that is drawn at random.
        min_learners: a round opens when so many are ready.
        benchmark_shards: shards that a device measures itself with.
        audit_rate: of the updates, the part that is trained again at the orchestrator to see whether the work was done;
            a learner that cheats is excluded.
        target_accuracy: ends the run once reached, as a ratio.
    """

    deadline_seconds: float
    name: str = ""
    overtime: float = 0.0
    rounds: int = 10
    local_epochs: int = 1
    batch_size: int = 32
    seed: int = 0
    min_learners: int = 1
    benchmark_shards: int = 8
    audit_rate: float = 0.0
    target_accuracy: float | None = None
    model: ModelSpec = ModelSpec(name="two-nn")
    optimizer: OptimizerSpec = OptimizerSpec()
    data: DataSpec = DataSpec()
    allocation: AllocationPolicy = AdaptiveDabAllocation()
    aggregation: AggregationSpec = AggregationSpec()

    def __post_init__(self) -> None:
        for name in ("rounds", "local_epochs", "batch_size", "min_learners", "benchmark_shards"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 < self.deadline_seconds < math.inf:
            raise ValueError(f"deadline_seconds is {self.deadline_seconds}; it must be above 0")
        if not 0 <= self.overtime <= MAX_OVERTIME:
            raise ValueError(f"overtime is {self.overtime}; allowed: 0 to {MAX_OVERTIME:g}")
        if self.target_accuracy is not None and not 0 < self.target_accuracy <= 1:
            raise ValueError(f"target_accuracy is {self.target_accuracy}; it must be above 0 and at most 1")
        if not 0 <= self.audit_rate <= 1:
            raise ValueError(f"audit_rate is {self.audit_rate}; allowed: 0 to 1")
        if self.allocation.decided_by == "peers":
            raise ValueError(
                f"{allocation.describe(self.allocation)['policy']} is a policy of peers, which train without an "
                "orchestrator; use one that learners or the orchestrator decide, such as adaptive-dab"
            )
        if self.data.placement == "local" and self.audit_rate:
            raise ValueError('placement is "local", but audit_rate is above 0: data that stays away cannot be audited')
        if self.data.placement == "local" and self.allocation.decided_by == "orchestrator":
            raise ValueError(
                'placement is "local", but this policy divides shards that the orchestrator has; use a policy that '
                "learners decide, such as dab"
            )
        if self.name and not JOB_NAME.fullmatch(self.name):
            raise ValueError(
                f"name is {self.name[:80]!r}; allowed: 1 to 64 letters, digits, and . _ -, not first a dot"
            )
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")

    def is_reached_by(self, accuracy: float | None) -> bool:
        """Whether a model of this accuracy ends the run before its last round."""
        return self.target_accuracy is not None and accuracy is not None and accuracy >= self.target_accuracy

    def described(self) -> dict[str, Any]:
        """The tables of a job file that make this job, every default spelled out."""
        rules = {name: getattr(self, name) for name in self.__struct_fields__ if name not in TABLES}
        if not self.name:
            del rules["name"]
        return {
            "job": _without_none(rules),
            "model": _without_none(msgspec.to_builtins(self.model)),
            "optimizer": {"name": self.optimizer.name, **self.optimizer.options},
            "data": _without_none(msgspec.to_builtins(self.data)),
            "allocation": _without_none(allocation.describe(self.allocation)),
            "aggregation": msgspec.to_builtins(self.aggregation),
        }


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}
