"""Allocation: policies that say how many shards each learner trains."""

from paceline.allocation.adaptive import AdaptiveDabAllocation
from paceline.allocation.base import AllocationPolicy, Candidate, Terms, Timings
from paceline.allocation.dab import DabAllocation
from paceline.allocation.equal import EqualAllocation
from paceline.allocation.policies import POLICIES, describe, from_config

__all__ = [
    "POLICIES",
    "AdaptiveDabAllocation",
    "AllocationPolicy",
    "Candidate",
    "DabAllocation",
    "EqualAllocation",
    "Terms",
    "Timings",
    "describe",
    "from_config",
]
