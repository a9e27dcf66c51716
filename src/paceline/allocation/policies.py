"""Policies by name, and their table in a job file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from paceline.allocation.adaptive import AdaptiveDabAllocation
from paceline.allocation.base import AllocationPolicy
from paceline.allocation.csa import CsaAllocation
from paceline.allocation.dab import DabAllocation
from paceline.allocation.edge_gossip import AllDataAllocation, EdgeGossipAllocation
from paceline.allocation.equal import EqualAllocation
from paceline.allocation.pool import MedAllocation, MmttAllocation
from paceline.allocation.sync import SyncAllocation
from paceline.checks import build
from paceline.errors import ConfigError
from paceline.spelling import suggest

POLICIES: dict[str, type[AllocationPolicy]] = {
    "dab": DabAllocation,
    "adaptive-dab": AdaptiveDabAllocation,
    "csa": CsaAllocation,
    "sync": SyncAllocation,
    "eta": EqualAllocation,
    "med": MedAllocation,
    "mmtt": MmttAllocation,
    "edge-gossip": EdgeGossipAllocation,
    "all-data": AllDataAllocation,
}
"""Policies, by their name in job files."""


def from_config(table: Mapping[str, Any]) -> AllocationPolicy:
    """Make the policy of a table with its name under ``policy``, and its fields; raises `ConfigError`."""
    fields = dict(table)
    name = fields.pop("policy", None)
    if not isinstance(name, str) or name not in POLICIES:
        raise ConfigError(f"policy is {name!r}; {suggest(name, sorted(POLICIES))}")
    try:
        policy: AllocationPolicy = build(POLICIES[name], fields)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    return policy


def describe(policy: AllocationPolicy) -> dict[str, Any]:
    """Return the table of a policy, for `from_config`; raises `ConfigError` for one that has no name."""
    for name, kind in POLICIES.items():
        if kind is type(policy):
            return {"policy": name, **dataclasses.asdict(policy)}  # type: ignore[call-overload]
    raise ConfigError(f"{type(policy).__name__} has no name; put it into paceline.allocation.POLICIES under one")
