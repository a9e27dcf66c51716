"""Policies by name, and their table in a job file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from paceline.allocation.adaptive import AdaptiveDabAllocation
from paceline.allocation.base import AllocationPolicy
from paceline.allocation.csa import CsaAllocation
from paceline.allocation.dab import DabAllocation
from paceline.allocation.edge_gossip import AllDataAllocation, EdgeGossipAllocation
from paceline.allocation.equal import EqualAllocation
from paceline.allocation.pool import MedAllocation, MmttAllocation
from paceline.allocation.sync import SyncAllocation
from paceline.plugins import TableFamily

POLICIES: TableFamily[AllocationPolicy] = TableFamily(
    noun="policy",
    members={
        "dab": DabAllocation,
        "adaptive-dab": AdaptiveDabAllocation,
        "csa": CsaAllocation,
        "sync": SyncAllocation,
        "eta": EqualAllocation,
        "med": MedAllocation,
        "mmtt": MmttAllocation,
        "edge-gossip": EdgeGossipAllocation,
        "all-data": AllDataAllocation,
    },
    group="paceline.policies",
    key="policy",
    base=AllocationPolicy,
)
"""Policies, by their name in job files."""


def from_config(table: Mapping[str, Any], allowed: Collection[str] | None = None) -> AllocationPolicy:
    """Make the policy of a table with its name, or import path, under ``policy``, and its fields; raises `ConfigError`.

    Args:
        allowed: import paths that this device allows, see `plugins.load_object`; None for any.
    """
    return POLICIES.make(table, allowed=allowed)


def describe(policy: AllocationPolicy) -> dict[str, Any]:
    """Return the table of a policy, for `from_config`; raises `ConfigError` for one that nothing can import."""
    return POLICIES.describe(policy)
