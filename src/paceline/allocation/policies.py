"""Policies by name, and their table in a job file."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.allocation.adaptive import AdaptiveDabAllocation
from paceline.allocation.base import AllocationPolicy
from paceline.allocation.csa import CsaAllocation
from paceline.allocation.dab import DabAllocation
from paceline.allocation.edge_gossip import AllDataAllocation, EdgeGossipAllocation
from paceline.allocation.equal import EqualAllocation
from paceline.allocation.pool import MedAllocation, MmttAllocation
from paceline.allocation.sync import SyncAllocation
from paceline.checks import why_refused
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
    kind = POLICIES[name]
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for field in fields:
        if field not in known:
            raise ConfigError(f"{name} has no field {field!r}; {suggest(field, sorted(known))}")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`")
        allowed = why_refused(fields.get(field), typing.get_type_hints(kind, include_extras=True).get(field))
        if allowed is not None:
            message = f"{field} is {fields[field]}; {allowed}"
        elif field:
            message = f"{field} is {fields[field]!r}: {message}"
        raise ConfigError(f"{name}: {message}") from None


def describe(policy: AllocationPolicy) -> dict[str, Any]:
    """Return the table of a policy, for `from_config`; raises `ConfigError` for one that has no name."""
    for name, kind in POLICIES.items():
        if kind is type(policy):
            return {"policy": name, **dataclasses.asdict(policy)}  # type: ignore[call-overload]
    raise ConfigError(f"{type(policy).__name__} has no name; put it into paceline.allocation.POLICIES under one")
