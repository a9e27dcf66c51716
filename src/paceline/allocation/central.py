"""Base of CSA and the synchronous scheme as policies: the orchestrator knows all profiles and hands out all data."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from paceline.allocation import costs
from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms, shards_there
from paceline.allocation.least_time import least_time
from paceline.checks import MOST, Count

# NumPy is imported when something is solved: a device that trains for another policy does without.
if TYPE_CHECKING:
    from paceline.allocation.csa.steps import Counts, Steps


@dataclass(frozen=True, kw_only=True)
class CentralAllocation(AllocationPolicy):
    """Base of the policies that hand out all shards, each to one learner, by the profiles of all.

    Learners without time for `min_local_epochs` over `min_shards` sit out, as do the slowest if there are fewer shards
    than that for each. If the others cannot finish all data by the deadline, it is extended to the least time in which
    they can, so that all overrun it alike: these policies fix the data, not the time. Where data stays on the devices,
    each gets shards of its own, and only as many are allocated as can be done by the deadline.

    Attributes:
        shards_per_round: shards to allocate in a round; None for all there are.
        min_shards: minimum of a learner's shards, if it gets any.
        max_shards: maximum of a learner's shards; None for no limit.
        min_local_epochs: minimum of a learner's local epochs.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "orchestrator"
    needs_profiles: ClassVar[bool] = True

    shards_per_round: Count | None = None
    min_shards: Count = 1
    max_shards: Count | None = None
    min_local_epochs: Count = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_shards is not None and self.max_shards < self.min_shards:
            raise ValueError(f"max_shards is {self.max_shards}, below min_shards, {self.min_shards}")

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Share out the shards; candidates without a profile sit out."""
        able = self._able(terms, candidates)
        if not able:
            return [SITS_OUT] * len(candidates)
        chosen = [candidates[index] for index in able]
        steps = self._steps(terms, chosen)
        total = min(self._wanted(terms, chosen), sum(self._most(terms, candidate) for candidate in chosen))
        if any(candidate.num_shards is not None for candidate in chosen):
            in_time = int(steps.most_for(self.min_local_epochs).sum())
            total = min(total, max(in_time, self.min_shards * len(chosen)))
        counts, local_epochs = self._share_out(_stretched(steps, total, self.min_local_epochs), total)
        allocated = [SITS_OUT] * len(candidates)
        for index, *share in zip(able, counts.tolist(), local_epochs.tolist(), strict=True):
            allocated[index] = Allocation(*share)
        return allocated

    def least_deadline_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        return self._least_seconds(terms, candidate)

    @abstractmethod
    def _share_out(self, steps: Steps, total: int) -> tuple[Counts, Counts]:
        """Return shards and local epochs, for which there is enough time."""

    def _wanted(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> int:
        there = shards_there(terms, candidates)
        return there if self.shards_per_round is None else min(there, self.shards_per_round)

    def _most(self, terms: RoundTerms, candidate: Candidate) -> int:
        most = candidate.most_shards(terms)
        return most if self.max_shards is None else min(most, self.max_shards)

    def _able(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[int]:
        """Return the indices of those that take part."""
        seconds = {
            index: self._least_seconds(terms, candidate)
            for index, candidate in enumerate(candidates)
            if self._most(terms, candidate) >= self.min_shards
        }
        in_time = [index for index, needed in seconds.items() if needed <= terms.deadline_seconds]
        able = in_time or [index for index, needed in seconds.items() if needed < MOST]
        fastest = sorted(able, key=seconds.__getitem__)[: self._wanted(terms, candidates) // self.min_shards]
        return sorted(fastest)

    def _least_seconds(self, terms: RoundTerms, candidate: Candidate) -> float:
        """Return the time of the minimum share."""
        profile = candidate.profile
        if profile is None:
            return float("inf")
        epochs_seconds = self.min_local_epochs * costs.local_epoch_seconds(terms, profile)
        each = costs.download_seconds(terms, profile) + epochs_seconds
        return costs.fixed_seconds(terms, profile) + self.min_shards * each

    def _steps(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> Steps:
        import numpy as np

        from paceline.allocation.csa.steps import Steps

        profiles = [candidate.profile for candidate in candidates if candidate.profile is not None]
        return Steps(
            c2=np.array([costs.local_epoch_seconds(terms, profile) for profile in profiles]),
            c1=np.array([costs.download_seconds(terms, profile) for profile in profiles]),
            c0=np.array([costs.fixed_seconds(terms, profile) for profile in profiles]),
            cycle_seconds=terms.deadline_seconds,
            low=np.full(len(candidates), self.min_shards, dtype=np.int64),
            high=np.array([self._most(terms, candidate) for candidate in candidates], dtype=np.int64),
        )


def _stretched(steps: Steps, total: int, min_local_epochs: int) -> Steps:
    """Extend the cycle to the least time in which all can be done, if it is too short."""
    from paceline.allocation.csa.exact import find_conflict

    def in_seconds(seconds: float) -> Steps:
        return dataclasses.replace(steps, cycle_seconds=seconds)

    def works(seconds: float) -> bool:
        return find_conflict(in_seconds(seconds), total, min_local_epochs) is None

    return in_seconds(least_time(works, steps.cycle_seconds))
