"""The rules of a pool, and a job that shares it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from paceline import allocation
from paceline.allocation import Allocation, MedAllocation, Placement, PoolPolicy
from paceline.errors import ConfigError
from paceline.events import Emit
from paceline.learning.averaging import State
from paceline.topologies.multitask.messages import JobProgress
from paceline.topologies.parallel import Course, Plan


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a pool.

    Attributes:
        allocation: which learner trains how much of which job.
        min_learners: the pool begins when so many are ready.
        total_budget: for everything that is ever paid; None for no limit. The policy's own budget is for one round.
        patience_seconds: how long to wait for learners that are expected, between two rounds.
        idle_seconds: how long to wait for another job when all are over.
        moves_learners: whether learners are placed anew when jobs or learners come or go; else they stay in their jobs
            until those are over, and other jobs wait.
        max_model_bytes: of jobs that are submitted.
        seed: of what the pool itself draws at random.
    """

    allocation: PoolPolicy = MedAllocation()
    min_learners: int = 1
    total_budget: float | None = None
    patience_seconds: float = 10.0
    idle_seconds: float = 0.0
    moves_learners: bool = True
    max_model_bytes: int = 1 << 28
    seed: int = 0

    def __post_init__(self) -> None:
        if self.min_learners < 1:
            raise ValueError(f"min_learners is {self.min_learners}; it must be at least 1")
        if self.total_budget is not None and not 0 <= self.total_budget < math.inf:
            raise ValueError(f"total_budget is {self.total_budget}; it must be at least 0")
        for name in ("patience_seconds", "idle_seconds"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0")
        if not 1 <= self.max_model_bytes <= 1 << 34:
            raise ValueError(f"max_model_bytes is {self.max_model_bytes}; allowed: 1 to {1 << 34}")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")

    def check_size(self, model_bytes: int) -> None:
        """Raise `ConfigError` for a model that is too large to be submitted."""
        if model_bytes > self.max_model_bytes:
            raise ConfigError(f"the model has {model_bytes} bytes; this pool allows {self.max_model_bytes}")

    def described(self) -> dict[str, Any]:
        """The tables of a pool file that make this pool, every default spelled out."""
        rules = {name: getattr(self, name) for name in self.__struct_fields__ if name != "allocation"}
        policy = allocation.describe(self.allocation)
        return {
            "pool": {name: value for name, value in rules.items() if value is not None},
            "allocation": {name: value for name, value in policy.items() if value is not None},
        }


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A job that is let into a pool, with what it needs from where it is kept.

    Attributes:
        plan: whose job has a name.
        state: the parameters to start from.
        emit: is told of what happens in this job.
        save: keeps the parameters after each round.
    """

    plan: Plan
    state: State
    emit: Emit
    save: Callable[[int, State], None] = lambda round, state: None


@dataclass
class SharedJob:
    """A job while it shares a pool.

    Attributes:
        team: its learners, and what they train in a round.
        spare: that a round may cost beyond what is planned, since others may do the work.
        is_over: whether there is no further round.
    """

    name: str
    course: Course
    team: dict[str, Placement] = field(default_factory=dict)
    spare: float = 0.0
    is_over: bool = False

    @property
    def progress(self) -> JobProgress:
        """How far it is."""
        return JobProgress(
            job=self.name,
            status="over" if self.is_over else "running" if self.team else "waiting",
            num_closed=self.course.num_closed,
            rounds=self.course.plan.job.rounds,
            num_learners=len(self.team),
            loss=self.course.loss,
            accuracy=self.course.accuracy,
        )

    @property
    def allocation(self) -> dict[str, Allocation]:
        """The shards and local epochs of each of its learners."""
        local_epochs = self.course.plan.terms.local_epochs
        return {name: Allocation(placement.num_shards, local_epochs) for name, placement in self.team.items()}
