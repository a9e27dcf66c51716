"""Policies for several jobs at once: which learner trains how much of which job.

Each learner is in one job at most. What makes a problem infeasible is given up step by step, and told: first that every
learner takes part, then the deadlines (learners halt at them), then the jobs that came last, which wait. The budget is
never given up.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.checks import Count, CountOrZero, NotNegative, Remainder, check_fields
from paceline.devices.profiles import Outlook, Profile
from paceline.errors import ConfigError

if TYPE_CHECKING:
    from paceline.allocation.med.instance import Instance, Plan

_LATER = (4.0, 16.0, 256.0)  # times the deadlines, when they are given up: solvers want them finite
_MOST_SECONDS = 1e12  # that a shard is taken to need, of a device that says it needs more


class Demand(NamedTuple):
    """A job that wants learners, and all of them as they are for this job, in the same order for every job."""

    job: str
    terms: RoundTerms
    fleet: Sequence[Candidate]


class Placement(NamedTuple):
    """Where a learner is, and how many shards it trains there.

    Attributes:
        fixed_seconds: that the parameters are expected to take, there and back.
        shard_seconds: that each shard is expected to take besides.
    """

    job: str
    num_shards: int
    fixed_seconds: float = 0.0
    shard_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Who trains what.

    Attributes:
        placements: by learner; those without one are idle.
        seconds: Σ over jobs of how long a round is expected to take.
        bound: that no assignment is below.
        cost: of one round of every job.
        waiting: jobs that get nobody.
        waived: what had to be given up besides.
    """

    placements: Mapping[str, Placement]
    seconds: float = 0.0
    bound: float = 0.0
    cost: float = 0.0
    waiting: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolPolicy(AllocationPolicy):
    """Minimises Σ over jobs of the longest delay of its learners, as the policy foresees delays.

    Attributes:
        budget: for one round of every job; None for no limit.
        min_shards: that every learner gets.
        max_steps: of the solver for one placing. If it needs more, the best placing found is used: the same on every
            machine.
    """

    budget: NotNegative | None = None
    min_shards: CountOrZero = 1
    max_steps: Count = 5_000

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "orchestrator"
    needs_profiles: ClassVar[bool] = True
    needs_outlook: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def held_share(self) -> float:
        """Of each learner's shards, the part that is held back for whoever of its team is done first."""
        return 0.0

    @property
    def is_renewed(self) -> bool:
        """Whether learners are assigned anew for each round; else only when jobs or learners come or go."""
        return self.states_told == "each round"

    @abstractmethod
    def foreseen(self, candidate: Candidate) -> Sequence[Outlook]:
        """The states that a learner is taken to be in, with their probabilities."""

    def assign(self, demands: Sequence[Demand], budget: float | None = None) -> Assignment:
        """Place learners in jobs; those that came first come first. Nobody is placed if not one job can be paid.

        Args:
            budget: if it is less than the policy's own.
        """
        limits = [limit for limit in (self.budget, budget) if limit is not None]
        for num_jobs in range(min(len(demands), len(demands[0].fleet)) if demands else 0, 0, -1):
            placed, waiting = demands[:num_jobs], tuple(demand.job for demand in demands[num_jobs:])
            for instance, waived in self._relaxed(self._instance(placed, min(limits, default=math.inf))):
                assignment = self._solve(instance, placed, waiting, waived)
                if assignment is not None:
                    return assignment
        return Assignment(placements={}, waiting=tuple(demand.job for demand in demands))

    def allocate(self, terms: RoundTerms, fleet: Sequence[Candidate]) -> list[Allocation]:
        """As `assign`, for one job."""
        placements = self.assign([Demand("", terms, fleet)]).placements if terms.num_shards else {}
        return [
            Allocation(placements[candidate.name].num_shards, terms.local_epochs)
            if candidate.name in placements
            else SITS_OUT
            for candidate in fleet
        ]

    def _relaxed(self, instance: Instance) -> Iterator[tuple[Instance, tuple[str, ...]]]:
        from dataclasses import replace

        yield instance, ()
        waived: tuple[str, ...] = ()
        if instance.min_shards:
            instance, waived = replace(instance, min_shards=0), ("min_shards",)
            yield instance, waived
        for times in _LATER:
            yield replace(instance, deadlines=times * instance.deadlines), (*waived, "deadlines")

    def _solve(
        self, instance: Instance, demands: Sequence[Demand], waiting: tuple[str, ...], waived: tuple[str, ...]
    ) -> Assignment | None:
        from paceline.allocation.med.conflicts import find_conflict
        from paceline.allocation.med.limit import Limit
        from paceline.allocation.med.solver import solve

        jobs, learners = [demand.job for demand in demands], [candidate.name for candidate in demands[0].fleet]
        if find_conflict(instance, jobs, learners) is not None:
            return None
        solution = solve(instance, Limit(max_steps=self.max_steps))
        if solution.plan is None:
            return None
        return Assignment(
            placements=_placements(instance, solution.plan, demands),
            seconds=solution.plan.objective,
            bound=min(solution.bound, solution.plan.objective),
            cost=solution.plan.cost,
            waiting=waiting,
            waived=waived,
        )

    def _instance(self, demands: Sequence[Demand], budget: float) -> Instance:
        import numpy as np

        from paceline.allocation.med.instance import Instance

        fleet = demands[0].fleet
        fixed, unit = np.zeros((2, len(demands), len(fleet)))
        for row, (_, terms, candidates) in enumerate(demands):
            for column, candidate in enumerate(candidates):
                for _, probability, profile in map(_as_tuple, self.foreseen(candidate)):
                    fixed[row, column] += probability * _fixed_seconds(terms, profile)
                    unit[row, column] += probability * _shard_seconds(terms, profile)
        return Instance(
            fixed_seconds=np.minimum(fixed, _MOST_SECONDS),
            unit_seconds=np.clip(unit, 1 / _MOST_SECONDS, _MOST_SECONDS),
            deadlines=np.array([demand.terms.deadline_seconds for demand in demands], dtype=np.float64),
            shards=np.array([demand.terms.num_shards for demand in demands], dtype=np.float64),
            prices=np.array([candidate.price for candidate in fleet], dtype=np.float64),
            budget=budget,
            min_shards=self.min_shards,
        )


@dataclass(frozen=True)
class MedAllocation(PoolPolicy):
    """MED (thesis on Axon, ch. 4): the delay that is foreseen is the mean over the states a learner may be in.

    Attributes:
        held_back: of each learner's shards, the part that it does not get as the round opens. Those go to whoever of
            its team is done first; 0 is MED as in the thesis.
    """

    held_back: Remainder = 0.0

    @property
    def held_share(self) -> float:
        return self.held_back

    def foreseen(self, candidate: Candidate) -> Sequence[Outlook]:
        return candidate.outlook


@dataclass(frozen=True)
class MmttAllocation(PoolPolicy):
    """MMTT, MED's baseline and its limit: each learner is taken to be in one state.

    Attributes:
        knowledge: ``uncertain``: the state that it was found in when it joined, for good; ``ideal``: the true one,
            told before each round, and learners are assigned anew.
    """

    knowledge: Literal["uncertain", "ideal"] = "uncertain"

    @property
    def states_told(self) -> Literal["never", "once", "each round"]:
        return "each round" if self.knowledge == "ideal" else "once"

    def foreseen(self, candidate: Candidate) -> Sequence[Outlook]:
        known = [outlook for outlook in candidate.outlook if outlook.state == candidate.state]
        if not known:
            raise ConfigError(f"{candidate.name} did not tell its state; mmtt needs to know it")
        return [Outlook(state=known[0].state, probability=1.0, profile=known[0].profile)]


def _as_tuple(outlook: Outlook) -> tuple[str, float, Profile]:
    return outlook.state, outlook.probability, outlook.profile


def _fixed_seconds(terms: RoundTerms, profile: Profile) -> float:
    """The parameters there and back."""
    per_byte = 1 / profile.down.per_second + 1 / profile.up.per_second
    return 2 * profile.latency_seconds + terms.model_bytes * per_byte


def _shard_seconds(terms: RoundTerms, profile: Profile) -> float:
    """A shard on its way there, and its training."""
    training = terms.local_epochs * terms.shard_samples / profile.train.per_second
    return terms.shard_bytes / profile.down.per_second + training


def _placements(instance: Instance, plan: Plan, demands: Sequence[Demand]) -> dict[str, Placement]:
    placements = {}
    for column, candidate in enumerate(demands[0].fleet):
        row = int(plan.tasks[column])
        if row >= 0 and plan.counts[row, column] > 0:
            demand = demands[row]
            most = demand.fleet[column].most_shards(demand.terms)  # what it is not willing to take is not trained
            if most > 0:
                placements[candidate.name] = Placement(
                    demand.job,
                    min(int(plan.counts[row, column]), most),
                    float(instance.fixed_seconds[row, column]),
                    float(instance.unit_seconds[row, column]),
                )
    return placements
