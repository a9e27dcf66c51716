"""ETA: equal shares, whatever the devices can do; the baseline of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from paceline.allocation.base import AllocationPolicy, Candidate, Terms
from paceline.allocation.rounding import split_evenly


@dataclass(frozen=True, kw_only=True)
class EqualAllocation(AllocationPolicy):
    """All shards in equal parts, the remainder to the first; what a learner will not take goes to the others."""

    decided_by: ClassVar[Literal["learner", "orchestrator"]] = "orchestrator"

    def allocate(self, terms: Terms, fleet: Sequence[Candidate]) -> list[int]:
        """The parts; less than all shards only if every candidate has as many as it will take."""
        return split_evenly(terms.num_shards, [candidate.most_shards(terms) for candidate in fleet])
