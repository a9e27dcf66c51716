"""EdgeGossip's balancer: each peer trains the part of its data that keeps its epoch as long as the fastest one's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from paceline import checks
from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms
from paceline.allocation.contract import (
    MAX_LEARNERS,
    AllocatedShare,
    Count,
    Name,
    NotNegative,
    Problem,
    Reply,
    check_unique,
)
from paceline.allocation.rounding import TOLERANCE

_MOST_NAMED = 5  # of learners that failed, in a message


class GossipPolicy(AllocationPolicy):
    """Decides how much of its own data each peer trains in an epoch.

    Every peer calls it for all of them, with what is predicted of them, and goes by its own part of the answer. A
    candidate's `max_shards` is the data that the peer has. One that nothing is predicted of has no profile.
    """

    decided_by: ClassVar[Literal["learner", "orchestrator", "peers"]] = "peers"

    @abstractmethod
    def failed(self, fleet: Sequence[Candidate]) -> list[str]:
        """The peers that are not reckoned with, in the fleet's order."""

    @abstractmethod
    def is_exceptional(self, fleet: Sequence[Candidate]) -> bool:
        """Whether so many have failed that others should train what those have: see `take_over`."""


@dataclass(frozen=True, kw_only=True)
class EdgeGossipAllocation(GossipPolicy):
    """Of its data, a peer keeps the ratio T_fastest / T_i, where T_i is what all of it would take.

    Algorithm 1 of Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms", with
    T_i = |X_i| / p_i from the samples that a peer has and those that it is predicted to train in a second. Whoever is
    predicted to train fewer than a threshold has failed, and sits out.

    Attributes:
        min_samples_per_second: below that, a peer has failed.
        max_failed: of all peers, the part that may fail before others take over what they have.
        max_ratio: that the fastest keeps; below 1, which is ours, all train less, and epochs are shorter.
    """

    min_samples_per_second: checks.NotNegative = 0.001
    max_failed: checks.Ratio = 0.1
    max_ratio: checks.Share = 1.0

    needs_profiles: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.check_fields(self)

    def allocate(self, terms: RoundTerms, fleet: Sequence[Candidate]) -> list[Allocation]:
        """The kept part of what each has, rounded, and one shard at least; also if too many have failed."""
        rates = [_predicted(candidate) for candidate in fleet]
        usable = [rate if self.is_usable(rate) else 0.0 for rate in rates]
        counts = kept([candidate.most_shards(terms) for candidate in fleet], usable, self.max_ratio)
        return [Allocation(count, terms.local_epochs) if count else SITS_OUT for count in counts]

    def failed(self, fleet: Sequence[Candidate]) -> list[str]:
        """Those that are too slow, and those that nothing is predicted of."""
        return [candidate.name for candidate in fleet if not self.is_usable(_predicted(candidate))]

    def is_exceptional(self, fleet: Sequence[Candidate]) -> bool:
        """Whether more than `max_failed` of them have failed."""
        return self.are_too_many(len(self.failed(fleet)), len(fleet))

    def is_usable(self, samples_per_second: float) -> bool:
        """Whether a peer of this speed has not failed."""
        return samples_per_second > 0 and samples_per_second >= self.min_samples_per_second

    def are_too_many(self, num_failed: int, num_peers: int) -> bool:
        """Whether so many of so many are more than may fail."""
        return num_peers > 0 and num_failed / num_peers > self.max_failed


@dataclass(frozen=True, kw_only=True)
class AllDataAllocation(GossipPolicy):
    """Everybody trains all that it has, and whoever is done waits: gossip as it is without a balancer."""

    def allocate(self, terms: RoundTerms, fleet: Sequence[Candidate]) -> list[Allocation]:
        """All that each has."""
        counts = [candidate.most_shards(terms) for candidate in fleet]
        return [Allocation(count, terms.local_epochs) if count else SITS_OUT for count in counts]

    def failed(self, fleet: Sequence[Candidate]) -> list[str]:
        """Nobody: it predicts nothing."""
        return []

    def is_exceptional(self, fleet: Sequence[Candidate]) -> bool:
        """Never."""
        return False


def kept(counts: Sequence[int], rates_per_second: Sequence[float], max_ratio: float = 1.0) -> list[int]:
    """What to keep of so many, so that all take as long as the one that is through with all of its own first.

    Rounded, and at least one of what there is; nothing for a rate of 0, which stands for one that failed.

    Args:
        max_ratio: of its own, that this first one keeps.
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
    """Who trains the parts of peers that failed.

    Attributes:
        heirs: the living peer that trains a part, by the name of the peer whose part it was.
        missing: peers whose part nobody has that lives.
    """

    heirs: Mapping[str, str]
    missing: tuple[str, ...]


def take_over(failed: Iterable[str], living: Collection[str], holders: Mapping[str, Sequence[str]]) -> Takeovers:
    """Who trains what the failed had: of those that hold a copy of a part, the first that lives.

    All who know the same names give the same answer, and a part changes hands only when its heir fails, or one comes
    back that is before it in the order.

    Args:
        holders: of each peer's part, those that have a copy, in the order in which they are to take over.
    """
    heirs, missing = {}, []
    for name in sorted(failed):
        heir = next((holder for holder in holders.get(name, ()) if holder in living), None)
        if heir is None:
            missing.append(name)
        else:
            heirs[name] = heir
    return Takeovers(heirs, tuple(missing))


class GossipLearner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learner of an `EdgeGossipProblem`, with the samples that it has; at 0 per second, it has failed."""

    name: Name
    samples_per_second: NotNegative
    samples: Count


class EdgeGossipProblem(Problem, frozen=True, kw_only=True):
    """What each of these peers trains in an epoch, so that all take as long as the fastest with all of its data."""

    objective_name: ClassVar[str] = "seconds of the epoch"

    min_samples_per_second: NotNegative = EdgeGossipAllocation.min_samples_per_second
    max_failed: checks.Ratio = EdgeGossipAllocation.max_failed
    max_ratio: checks.Share = EdgeGossipAllocation.max_ratio
    learners: Annotated[list[GossipLearner], Meta(min_length=1, max_length=MAX_LEARNERS)]

    def __post_init__(self) -> None:
        check_unique((learner.name for learner in self.learners), "learners")

    def solve(self, *, time_limit_seconds: float | None = None) -> Reply:
        """By Algorithm 1; infeasible where that halts, since too many have failed.

        The bound is what it takes if the fastest trains `max_ratio` of what it has, and each other one sample or more.
        """
        policy = EdgeGossipAllocation(min_samples_per_second=self.min_samples_per_second, max_failed=self.max_failed)
        living = [learner for learner in self.learners if policy.is_usable(learner.samples_per_second)]
        failed = [one.name for one in self.learners if not policy.is_usable(one.samples_per_second)]
        if not living or policy.are_too_many(len(failed), len(self.learners)):
            return Reply(status="infeasible", reason=self._told(failed))
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

    def _told(self, failed: Sequence[str]) -> str:
        more = len(failed) - _MOST_NAMED
        names = ", ".join(map(repr, failed[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
        limit = f"max_failed is {self.max_failed:g}" if len(failed) < len(self.learners) else "nobody is left"
        return (
            f"{len(failed)} of {len(self.learners)} learners failed, below min_samples_per_second, "
            f"{self.min_samples_per_second:g}: {names}; {limit}"
        )


def _predicted(candidate: Candidate) -> float:
    return 0.0 if candidate.profile is None else candidate.profile.train.per_second
