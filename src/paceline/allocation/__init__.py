"""Allocation: policies that decide how many shards each learner trains, and solvers of allocation problems.

Plain data in, plain data out: no PyTorch, no I/O, no clock.
"""

from paceline.allocation.adaptive import AdaptiveDabAllocation
from paceline.allocation.base import SITS_OUT, Allocation, AllocationPolicy, Candidate, RoundTerms, Timings
from paceline.allocation.csa import CsaAllocation
from paceline.allocation.dab import DabAllocation
from paceline.allocation.edge_gossip import (
    AllDataAllocation,
    BalancingPolicy,
    EdgeGossipAllocation,
    Takeovers,
    take_over,
)
from paceline.allocation.equal import EqualAllocation
from paceline.allocation.policies import POLICIES, describe, from_config
from paceline.allocation.pool import Assignment, Demand, MedAllocation, MmttAllocation, Placement, PoolPolicy
from paceline.allocation.problem_base import AllocatedShare, Problem, Reply
from paceline.allocation.problems import PROBLEMS, read_problem
from paceline.allocation.sync import SyncAllocation

__all__ = [
    "POLICIES",
    "PROBLEMS",
    "SITS_OUT",
    "AdaptiveDabAllocation",
    "AllDataAllocation",
    "AllocatedShare",
    "Allocation",
    "AllocationPolicy",
    "Assignment",
    "BalancingPolicy",
    "Candidate",
    "CsaAllocation",
    "DabAllocation",
    "Demand",
    "EdgeGossipAllocation",
    "EqualAllocation",
    "MedAllocation",
    "MmttAllocation",
    "Placement",
    "PoolPolicy",
    "Problem",
    "Reply",
    "RoundTerms",
    "SyncAllocation",
    "Takeovers",
    "Timings",
    "describe",
    "from_config",
    "read_problem",
    "take_over",
]
