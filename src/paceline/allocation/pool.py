"""Policies for several jobs at once: which learner trains how much of which job.

Each learner is in one job at most. Constraints that make a problem infeasible are waived step by step, and reported:
first that every learner takes part, then the deadlines (learners halt at them), then jobs: one that cannot be placed
beside those that came before it waits, and those that came after it go on. The budget is never waived.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import msgspec

from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.allocation.costs import fixed_seconds, shard_seconds
from paceline.checks import Count, CountOrZero, NotNegative, RatioBelowOne
from paceline.devices.profiles import Outlook

if TYPE_CHECKING:
    from paceline.allocation.med.instance import Instance, Plan

_LATER = (4.0, 16.0, 256.0)  # factors of waived deadlines: solvers need finite ones
_MOST_SECONDS = 1e12  # limit of what a device claims that a shard takes


class Demand(NamedTuple):
    """A job in need of learners, and all of these as candidates for it, in the same order for every job."""

    job: str
    terms: RoundTerms
    candidates: Sequence[Candidate]


class Placement(NamedTuple):
    """Job of a learner, and the shards it trains for it.

    Attributes:
        fixed_seconds: expected time of both transfers of the parameters.
        shard_seconds: expected time of each shard.
    """

    job: str
    num_shards: int
    fixed_seconds: float = 0.0
    shard_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Assignment of learners to jobs.

    Attributes:
        placements: placement of each learner; those without one are idle.
        seconds: sum over jobs of the expected duration of a round.
        bound: lower bound of `seconds` over all assignments.
        cost: cost of one round of every job.
        waiting: jobs without learners.
        hindered: those of them that these learners could not do even if they had no other job, and why.
        waived: constraints that were waived.
        failure: error of the solver, if this was made without it; else empty.
    """

    placements: Mapping[str, Placement]
    seconds: float = 0.0
    bound: float = 0.0
    cost: float = 0.0
    waiting: tuple[str, ...] = ()
    hindered: Mapping[str, str] = field(default_factory=dict)
    waived: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class PoolPolicy(AllocationPolicy):
    """Minimises the sum over jobs of the longest expected delay of its learners.

    Attributes:
        budget: budget of one round of every job; None for no limit.
        min_shards: minimum of every learner's shards.
        max_steps: step limit of the solver; once reached, its best placing is used, the same on every machine.
    """

    budget: NotNegative | None = None
    min_shards: CountOrZero = 1
    max_steps: Count = 5_000

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "orchestrator"
    needs_profiles: ClassVar[bool] = True
    needs_outlook: ClassVar[bool] = True

    @property
    def held_share(self) -> float:
        """Share of each learner's shards held back for those of its job that finish first."""
        return 0.0

    @property
    def is_renewed(self) -> bool:
        """Whether learners are reassigned for each round; else only when jobs or learners come or go."""
        return self.state_reports == "each round"

    @abstractmethod
    def foreseen(self, candidate: Candidate) -> Sequence[Outlook]:
        """Return the states that a learner is assumed to be in, with their probabilities."""

    def assign(self, demands: Sequence[Demand], budget: float | None = None) -> Assignment:
        """Assign learners to jobs, earlier jobs first; a job that cannot be placed does not hold up the others.

        Args:
            budget: budget, if less than the policy's own.
        """
        most = min((limit for limit in (self.budget, budget) if limit is not None), default=math.inf)
        num_learners = len(demands[0].candidates) if demands else 0
        chosen = demands[:num_learners]  # each is in one job at most
        assignment = self._placed(chosen, most) if chosen else None
        if assignment is None:
            assignment, chosen = self._one_by_one(demands, most)
        placed = {demand.job for demand in chosen}
        waiting = [demand for demand in demands if demand.job not in placed]
        alone = waiting if len(chosen) < num_learners else []
        reasons = {demand.job: self._why_not_even_alone(demand, most) for demand in alone}
        return replace(
            assignment,
            waiting=tuple(demand.job for demand in waiting),
            hindered={job: reason for job, reason in reasons.items() if reason is not None},
        )

    def _one_by_one(self, demands: Sequence[Demand], budget: float) -> tuple[Assignment, Sequence[Demand]]:
        """Place one job more at a time, leaving out those that cannot be beside the ones before; and return whose."""
        assignment, chosen = Assignment(placements={}), list[Demand]()
        for demand in demands:
            if len(chosen) == len(demand.candidates):
                break
            found = self._placed([*chosen, demand], budget)
            if found is not None:
                assignment, chosen = found, [*chosen, demand]
        return assignment, chosen

    def _placed(self, demands: Sequence[Demand], budget: float) -> Assignment | None:
        """Place learners in all of these jobs; None if that cannot be, whatever is waived."""
        relaxed = self._relaxed(self._instance(demands, budget))
        found = (self._solve(instance, demands, waived) for instance, waived in relaxed)
        return next((assignment for assignment in found if assignment is not None), None)

    def _why_not_even_alone(self, demand: Demand, budget: float) -> str | None:
        """Return why no learners can do a job, whatever is waived; None if some can."""
        from paceline.allocation.med.conflicts import find_conflict

        if self._placed([demand], budget) is not None:
            return None
        jobs, learners = [demand.job], [candidate.name for candidate in demand.candidates]
        instance = replace(self._instance([demand], budget), min_shards=0)
        later = replace(instance, deadlines=_LATER[-1] * instance.deadlines)
        is_in_time = find_conflict(replace(later, budget=math.inf), jobs, learners) is None
        return find_conflict(later if is_in_time else instance, jobs, learners) or "no allocation of it was found"

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Allocate for one job, as `assign` does."""
        placements = self.assign([Demand("", terms, candidates)]).placements if terms.num_shards else {}
        return [
            Allocation(placements[candidate.name].num_shards, terms.local_epochs)
            if candidate.name in placements
            else SITS_OUT
            for candidate in candidates
        ]

    def _relaxed(self, instance: Instance) -> Iterator[tuple[Instance, tuple[str, ...]]]:
        yield instance, ()
        waived: tuple[str, ...] = ()
        if instance.min_shards:
            instance, waived = replace(instance, min_shards=0), ("min_shards",)
            yield instance, waived
        for times in _LATER:
            yield replace(instance, deadlines=times * instance.deadlines), (*waived, "deadlines")

    def _solve(self, instance: Instance, demands: Sequence[Demand], waived: tuple[str, ...]) -> Assignment | None:
        from paceline.allocation.med.conflicts import find_conflict
        from paceline.allocation.med.limit import Limit
        from paceline.allocation.med.solver import solve

        jobs, learners = [demand.job for demand in demands], [candidate.name for candidate in demands[0].candidates]
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
            waived=waived,
        )

    def _instance(self, demands: Sequence[Demand], budget: float) -> Instance:
        import numpy as np

        from paceline.allocation.med.instance import Instance

        learners = demands[0].candidates
        fixed, unit = np.zeros((2, len(demands), len(learners)))
        for row, (_, terms, candidates) in enumerate(demands):
            for column, candidate in enumerate(candidates):
                likely = [outlook for outlook in self.foreseen(candidate) if outlook.probability > 0]
                if not likely:  # nothing is known of it in this job, or it is not to be in it
                    fixed[row, column] = unit[row, column] = _MOST_SECONDS
                for outlook in likely:
                    fixed[row, column] += outlook.probability * fixed_seconds(terms, outlook.profile)
                    unit[row, column] += outlook.probability * shard_seconds(terms, outlook.profile)
        return Instance(
            fixed_seconds=np.minimum(fixed, _MOST_SECONDS),
            unit_seconds=np.clip(unit, 1 / _MOST_SECONDS, _MOST_SECONDS),
            deadlines=np.array([demand.terms.deadline_seconds for demand in demands], dtype=np.float64),
            shards=np.array([demand.terms.num_shards for demand in demands], dtype=np.float64),
            prices=np.array([learner.price for learner in learners], dtype=np.float64),
            budget=budget,
            min_shards=self.min_shards,
        )


@dataclass(frozen=True)
class MedAllocation(PoolPolicy):
    """MED (thesis on Axon, ch. 4): the expected delay is the mean over the states a learner may be in.

    Attributes:
        held_back: share of each learner's shards that is kept as the round opens, for those of its job that finish
            first; 0 is MED as in the thesis.
    """

    held_back: RatioBelowOne = 0.0

    @property
    def held_share(self) -> float:
        return self.held_back

    def foreseen(self, candidate: Candidate) -> Sequence[Outlook]:
        return candidate.outlook


@dataclass(frozen=True)
class MmttAllocation(PoolPolicy):
    """MMTT, MED's baseline and its limit: each learner is assumed to be in one state.

    Attributes:
        knowledge: ``uncertain``: always the state in which it joined; ``ideal``: the true one, reported before each
            round, for which learners are reassigned.
    """

    knowledge: Literal["uncertain", "ideal"] = "uncertain"

    @property
    def state_reports(self) -> Literal["never", "once", "each round"]:
        return "each round" if self.knowledge == "ideal" else "once"

    def foreseen(self, candidate: Candidate) -> Sequence[Outlook]:
        known = [outlook for outlook in candidate.outlook if outlook.state == candidate.state]
        return [msgspec.structs.replace(outlook, probability=1.0) for outlook in known[:1]]


def _placements(instance: Instance, plan: Plan, demands: Sequence[Demand]) -> dict[str, Placement]:
    placements = {}
    for column, candidate in enumerate(demands[0].candidates):
        row = int(plan.tasks[column])
        if row >= 0 and plan.counts[row, column] > 0:
            demand = demands[row]
            most = demand.candidates[column].most_shards(demand.terms)  # what it is not willing to take is not trained
            if most > 0:
                placements[candidate.name] = Placement(
                    demand.job,
                    min(int(plan.counts[row, column]), most),
                    float(instance.fixed_seconds[row, column]),
                    float(instance.unit_seconds[row, column]),
                )
    return placements
