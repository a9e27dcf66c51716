"""DAB: a learner takes what its benchmark says it can finish by the deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.allocation.base import AllocationPolicy, Candidate, Terms
from paceline.allocation.rounding import units_within
from paceline.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DabAllocation(AllocationPolicy):
    """As many shards as can be downloaded, trained and reported by the deadline at the benchmarked rates.

    The same every round; 0 if not even one can be finished. From the paper, with the link measured in both directions
    and its latency counted once for the download and once for the upload:

        a = ⌊(D − 2·latency − Ωm/b_down − Ωm/b_up) / (μ·s/c + Ωd/b_down)⌋

    where D is the deadline, Ωm and Ωd the bytes of the model and of a shard of s samples, b the bytes per second,
    c the samples per second and μ the iterations. With equal b and no latency it is Eq. 5 of Mays, Elsayed and
    Hassanein, "Decentralized Data Allocation via Local Benchmarking for Parallelized Mobile Edge Learning".
    """

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "learner"

    def allocate(self, terms: Terms, fleet: Sequence[Candidate]) -> list[int]:
        """Each candidate for itself; raises `ConfigError` for one without a profile."""
        return [self._shards(terms, candidate) for candidate in fleet]

    def _shards(self, terms: Terms, candidate: Candidate) -> int:
        profile = candidate.profile
        if profile is None:
            raise ConfigError(f"dab: learner {candidate.name!r} has no profile; it must be benchmarked first")
        return units_within(
            terms.deadline_seconds,
            fixed_seconds=2 * profile.latency_seconds
            + terms.model_bytes / profile.down.per_second
            + terms.model_bytes / profile.up.per_second,
            unit_seconds=terms.iterations * terms.shard_samples / profile.train.per_second
            + terms.shard_bytes / profile.down.per_second,
            most=candidate.most_shards(terms),
        )
