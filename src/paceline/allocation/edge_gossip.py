"""EdgeGossip's balancer: each peer trains a part of its data, so that all epochs take as long as the fastest one's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import msgspec

from paceline import checks
from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.allocation.problem_base import AllocatedShare, Learners, Name, Problem, Reply
from paceline.allocation.rounding import TOLERANCE
from paceline.checks import Count, NotNegative

_MOST_NAMED = 5  # of learners that failed, in a message


class BalancingPolicy(AllocationPolicy):
    """Decides how much of its own data each peer trains in an epoch.

    Every peer calls it with the predicted speeds of all, and follows its own part of the result. A candidate's
    `max_shards` is the data that the peer holds. A peer without a prediction has no profile.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator", "peers"]] = "peers"

    @abstractmethod
    def failed(self, candidates: Sequence[Candidate]) -> list[str]:
        """List the peers that count as failed, in the candidates' order."""

    @abstractmethod
    def is_exceptional(self, candidates: Sequence[Candidate]) -> bool:
        """Decide whether so many have failed that others should train their data: see `take_over`."""


@dataclass(frozen=True, kw_only=True)
class EdgeGossipAllocation(BalancingPolicy):
    """A peer trains the share T_fastest / T_i of its data, where T_i is the time that all of it would take.

    Algorithm 1 of Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms", with
    T_i = |X_i| / p_i from a peer's number of samples and its predicted samples per second. A peer below a threshold
    counts as failed, and sits out.

    Attributes:
        min_samples_per_second: threshold below which a peer counts as failed.
        max_failed: share of peers that may fail before others take over their data.
        max_ratio: share of its data that the fastest trains; below 1, which is our addition, epochs are shorter.
    """

    min_samples_per_second: checks.NotNegative = 0.001
    max_failed: checks.Ratio = 0.1
    max_ratio: checks.PositiveRatio = 1.0

    needs_profiles: ClassVar[bool] = True

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        """Return the balanced part of each peer's data, one shard at least, also if too many have failed."""
        rates = [_predicted(candidate) for candidate in candidates]
        usable = [rate if self.is_usable(rate) else 0.0 for rate in rates]
        counts = kept([candidate.most_shards(terms) for candidate in candidates], usable, self.max_ratio)
        return [Allocation(count, terms.local_epochs) if count else SITS_OUT for count in counts]

    def failed(self, candidates: Sequence[Candidate]) -> list[str]:
        return [candidate.name for candidate in candidates if not self.is_usable(_predicted(candidate))]

    def is_exceptional(self, candidates: Sequence[Candidate]) -> bool:
        return self.are_too_many(len(self.failed(candidates)), len(candidates))

    def is_usable(self, samples_per_second: float) -> bool:
        """Check that a peer of this speed has not failed."""
        return samples_per_second > 0 and samples_per_second >= self.min_samples_per_second

    def are_too_many(self, num_failed: int, num_peers: int) -> bool:
        """Check whether more peers have failed than may fail."""
        return num_peers > 0 and num_failed / num_peers > self.max_failed


@dataclass(frozen=True, kw_only=True)
class AllDataAllocation(BalancingPolicy):
    """Every peer trains all its data, and the fast ones wait: gossip without a balancer."""

    def allocate(self, terms: RoundTerms, candidates: Sequence[Candidate]) -> list[Allocation]:
        counts = [candidate.most_shards(terms) for candidate in candidates]
        return [Allocation(count, terms.local_epochs) if count else SITS_OUT for count in counts]

    def failed(self, candidates: Sequence[Candidate]) -> list[str]:
        return []

    def is_exceptional(self, candidates: Sequence[Candidate]) -> bool:
        return False


def kept(counts: Sequence[int], rates_per_second: Sequence[float], max_ratio: float = 1.0) -> list[int]:
    """Return the parts of these counts that all take as long as the fastest takes for all of its own.

    They are rounded, and at least 1; 0 for a rate of 0, which stands for a failed peer.

    Args:
        max_ratio: part of its own count that the fastest keeps.
    """
    whole_seconds = [
        count / rate for count, rate in zip(counts, rates_per_second, strict=True) if count > 0 and rate > 0
    ]
    fastest_seconds = max_ratio * min(whole_seconds, default=0.0)
    return [
        min(count, max(1, round(fastest_seconds * rate))) if count > 0 and rate > 0 else 0
        for count, rate in zip(counts, rates_per_second, strict=True)
    ]


class Takeovers(NamedTuple):
    """Peers that train the parts of failed ones.

    Attributes:
        heirs: living peer that trains a part, by the name of the part's failed owner.
        missing: failed peers whose part no living peer holds.
    """

    heirs: Mapping[str, str]
    missing: tuple[str, ...]


def take_over(failed: Iterable[str], living: Collection[str], holders: Mapping[str, Sequence[str]]) -> Takeovers:
    """Assign the parts of failed peers, each to the first living holder of a copy.

    All peers that know the same names get the same result, and a part moves only when its heir fails, or a peer that
    precedes it comes back.

    Args:
        holders: peers that hold a copy of each peer's part, in the order in which they take over.
    """
    heirs, missing = {}, []
    for name in sorted(failed):
        heir = next((holder for holder in holders.get(name, ()) if holder in living), None)
        if heir is None:
            missing.append(name)
        else:
            heirs[name] = heir
    return Takeovers(heirs, tuple(missing))


class BalancedLearner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner of an `EdgeGossipProblem`, with its number of samples; at 0 per second, it has failed."""

    name: Name
    samples_per_second: NotNegative
    samples: Count


class EdgeGossipProblem(Problem, frozen=True, kw_only=True):
    """Samples that each peer trains in an epoch, so that all take as long as the fastest with all of its data."""

    objective_name: ClassVar[str] = "seconds of the epoch"

    min_samples_per_second: NotNegative = EdgeGossipAllocation.min_samples_per_second
    max_failed: checks.Ratio = EdgeGossipAllocation.max_failed
    max_ratio: checks.PositiveRatio = EdgeGossipAllocation.max_ratio
    learners: Learners[BalancedLearner]

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """Run Algorithm 1; infeasible where it halts, because too many have failed.

        The bound is the time if the fastest trains `max_ratio` of its data, and each other at least one sample.
        """
        policy = EdgeGossipAllocation(min_samples_per_second=self.min_samples_per_second, max_failed=self.max_failed)
        living = [learner for learner in self.learners if policy.is_usable(learner.samples_per_second)]
        failed = [one.name for one in self.learners if not policy.is_usable(one.samples_per_second)]
        if not living or policy.are_too_many(len(failed), len(self.learners)):
            return Reply(status="infeasible", reason=self._too_many(failed))
        counts = kept([one.samples for one in living], [one.samples_per_second for one in living], self.max_ratio)
        by_name = {learner.name: count for learner, count in zip(living, counts, strict=True)}
        objective = max(by_name[learner.name] / learner.samples_per_second for learner in living)
        fastest_seconds = self.max_ratio * min(learner.samples / learner.samples_per_second for learner in living)
        bound = max(fastest_seconds, 1 / min(learner.samples_per_second for learner in living))
        return Reply(
            status="optimal" if objective <= bound * (1 + TOLERANCE) else "feasible",
            objective=objective,
            bound=min(bound, objective),
            allocation=[
                AllocatedShare(learner=one.name, samples=by_name.get(one.name, 0), iterations=int(one.name in by_name))
                for one in self.learners
            ],
        )

    def _too_many(self, failed: Sequence[str]) -> str:
        more = len(failed) - _MOST_NAMED
        names = ", ".join(map(repr, failed[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
        limit = f"max_failed is {self.max_failed:g}" if len(failed) < len(self.learners) else "nobody is left"
        return (
            f"{len(failed)} of {len(self.learners)} learners failed, below min_samples_per_second, "
            f"{self.min_samples_per_second:g}: {names}; {limit}"
        )


def _predicted(candidate: Candidate) -> float:
    return 0.0 if candidate.profile is None else candidate.profile.train.per_second
