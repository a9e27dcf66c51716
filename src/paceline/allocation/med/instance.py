"""MED on arrays: the problem that all files of this folder solve. After the thesis on Axon, chapter 4, Eq. 4.4.

Variables: d_ij, the whole shards of task i that learner j trains; each learner has shards of one task at most.
Objective: the least Σ_i max_j δ_ij, in seconds, where δ_ij = A_ij + B_ij·d_ij for d_ij > 0, and 0 otherwise.
Constraints: δ_ij ≤ T_i, the task's deadline; Σ_j d_ij = D_i, its shards; Σ_ij p_j·d_ij ≤ the budget; and d_ij ≥ D_l for
each learner's one task, where D_l = 0 lets it be idle.

The target H_i of a task is the time by which all of its learners must be done. It decides what a learner can take,
cap_ij = ⌊(H_i − A_ij) / B_ij⌋, and a plan is nothing but targets and sets of learners whose capacities suffice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.allocation.rounding import TOLERANCE

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

IDLE = -1
"""Task number of a learner that has none."""

_BISECTIONS = 64  # of a time, until no number lies between


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """Tasks and learners.

    Attributes:
        fixed_seconds: A, by task and learner.
        unit_seconds: B, by task and learner, above 0.
        deadlines: T, in seconds.
        shards: D, whole numbers of at least 1, as floats.
        prices: p, price of a shard by learner, at least 0.
        budget: limit of the cost of all shards; infinite if there is none.
        min_shards: D_l. With 0 a learner may be idle; otherwise each is in exactly one task.
    """

    fixed_seconds: Floats
    unit_seconds: Floats
    deadlines: Floats
    shards: Floats
    prices: Floats
    budget: float
    min_shards: int

    @property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return int(self.fixed_seconds.shape[0])

    @property
    def num_learners(self) -> int:
        """Number of learners."""
        return int(self.fixed_seconds.shape[1])

    @property
    def least(self) -> int:
        """Fewest shards of a learner that is in a task."""
        return max(1, self.min_shards)

    @property
    def may_idle(self) -> bool:
        """Whether a learner may be in no task."""
        return self.min_shards == 0

    @property
    def dearest_cost(self) -> float:
        """Cost of all shards if the dearest learner trained them."""
        return float(self.shards.sum() * self.prices.max(initial=0.0))

    @property
    def has_ample_budget(self) -> bool:
        """Whether no plan can exceed the budget."""
        return self.dearest_cost <= self.budget

    def sets_of(self, tasks: Indices) -> Bools:
        """Mark the learners of each task, a row each, from the task of each learner."""
        sets: Bools = tasks == np.arange(self.num_tasks)[:, None]
        return sets

    def capacities(self, tasks: Indices | int, targets: Floats, learners: Indices | slice = slice(None)) -> Floats:
        """Count the shards each learner can take of a task by a target, a row per target; 0 if fewer than its least."""
        fixed, unit = self.fixed_seconds[tasks][..., learners], self.unit_seconds[tasks][..., learners]
        counts = np.floor((targets[:, None] * (1 + TOLERANCE) - fixed) / unit)
        counts[counts < self.least] = 0.0
        return np.minimum(counts, self.shards[tasks, None])

    def seconds(self, task: int, counts: Floats) -> Floats:
        """Return how long each learner takes for so many shards; 0 for none."""
        taken = self.fixed_seconds[task] + self.unit_seconds[task] * counts
        return np.where(counts > 0, taken, 0.0)

    def fewest_seconds(self, task: int, members: Bools) -> Floats:
        """Find the least target of each set of learners, a row each; infinite if it cannot do the shards in time.

        All members take part, and so have time for their least, unless learners may be idle.
        """
        fixed, unit, first = self.fixed_seconds[task], self.unit_seconds[task], self.least - 1
        needed, deadline = self.shards[task], float(self.deadlines[task])
        low = np.zeros(len(members))
        if not self.may_idle:
            low = np.where(members, fixed + self.least * unit, 0.0).max(axis=1, initial=0.0)
        is_possible = low <= deadline * (1 + TOLERANCE)
        if not self.may_idle:
            is_possible &= members.sum(axis=1) * self.least <= needed

        def events_by(targets: Floats) -> Floats:
            """Count the moments until a target at which each member could have taken one shard more."""
            counts = np.floor((targets[:, None] * (1 + TOLERANCE) - fixed) / unit)
            return np.where(members, np.maximum(counts - first, 0.0), 0.0)

        def suffice(events: Floats) -> Bools:
            enough: Bools = (events + first * (events > 0)).sum(axis=1) >= needed
            return enough

        high = np.full(len(members), deadline)
        events_low, events_high = events_by(low), events_by(high)
        is_possible &= suffice(events_high)
        suffices = suffice(events_low)
        for _ in range(_BISECTIONS):
            if np.all(suffices | ~is_possible | ((events_high - events_low).sum(axis=1) <= 1)):
                break
            middle = (low + high) / 2
            events = events_by(middle)
            enough = suffice(events)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
            events_low = np.where(enough[:, None], events_low, events)
            events_high = np.where(enough[:, None], events, events_high)
        # the last moment at which a member is done, since between two such nothing changes
        ends = np.where(events_high > 0, fixed + unit * (events_high + first), 0.0).max(axis=1, initial=0.0)
        return np.where(is_possible, np.where(suffices, low, np.minimum(ends, high)), np.inf)

    def cheapest_counts(self, task: int, members: Bools, targets: Floats) -> Floats:
        """Share out a task's shards at the least cost by each target, which must leave time for them all.

        Args:
            members: a set of learners for each target, a row each, or one set for all.
        """
        order = np.argsort(self.prices, kind="stable")
        most, members = self.capacities(task, targets)[:, order], members[..., order]
        least = np.where(members, 0.0 if self.may_idle else self.least, 0.0)
        more = np.where(members, np.maximum(most - least, 0.0), 0.0)
        left = self.shards[task] - least.sum(axis=-1, keepdims=True)
        counts = np.empty_like(most)
        counts[:, order] = least + np.clip(left - (np.cumsum(more, axis=1) - more), 0.0, more)
        return counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Whole shards, by task and learner, that keep all constraints, and the sum of the tasks' seconds."""

    counts: Floats
    objective: float
    cost: float

    @classmethod
    def of(cls, instance: Instance, sets: Bools, targets: Floats) -> Plan:
        """Share out the shards at the least cost for these sets of learners, a row for each task, by these targets."""
        counts = np.concatenate(
            [instance.cheapest_counts(task, own, targets[task, None]) for task, own in enumerate(sets)]
        )
        seconds = [float(instance.seconds(task, own).max()) for task, own in enumerate(counts)]
        return cls(counts=counts, objective=sum(seconds), cost=float((counts.sum(axis=0) * instance.prices).sum()))

    @property
    def tasks(self) -> Indices:
        """Task of each learner, or `IDLE`."""
        return np.where(self.counts.any(axis=0), self.counts.argmax(axis=0), IDLE)
