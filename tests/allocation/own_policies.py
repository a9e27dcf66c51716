"""Allocation policies of a user's own."""

import math
from dataclasses import dataclass

from paceline.allocation import Allocation, AllocationPolicy, DabAllocation
from paceline.checks import PositiveRatio


@dataclass(frozen=True, kw_only=True)
class PartOfDab(AllocationPolicy):
    """A part of what DAB would take."""

    decided_by = "learner"
    part: PositiveRatio = 0.5

    def allocate(self, terms, candidates):
        return [
            Allocation(math.ceil(self.part * num_shards), local_epochs)
            for num_shards, local_epochs in DabAllocation().allocate(terms, candidates)
        ]


class NotOne:
    """No policy at all."""
