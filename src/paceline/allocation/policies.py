"""Policies by name, and their form in a job file."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.allocation.adaptive import AdaptiveDabAllocation
from paceline.allocation.base import AllocationPolicy
from paceline.allocation.dab import DabAllocation
from paceline.allocation.equal import EqualAllocation
from paceline.errors import ConfigError

POLICIES: dict[str, type[AllocationPolicy]] = {
    "dab": DabAllocation,
    "adaptive-dab": AdaptiveDabAllocation,
    "eta": EqualAllocation,
}
"""Every policy, by the name that job files use."""


def from_config(table: Mapping[str, Any]) -> AllocationPolicy:
    """The policy that a table describes: its name under ``policy``, and its fields; raises `ConfigError`."""
    fields = dict(table)
    name = fields.pop("policy", None)
    if name not in POLICIES:
        near = difflib.get_close_matches(str(name), POLICIES, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"policy {name!r} is unknown; known: {', '.join(POLICIES)}{hint}")
    kind = POLICIES[name]
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for field in fields:
        if field not in known:
            raise ConfigError(f"{name} has no field {field!r}; it has {', '.join(known) or 'none'}")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`")
        raise ConfigError(f"{name}: {field} = {fields.get(field)!r}: {message}" if field else message) from None


def describe(policy: AllocationPolicy) -> dict[str, Any]:
    """The table that `from_config` makes this policy of."""
    name = next(name for name, kind in POLICIES.items() if kind is type(policy))
    return {"policy": name, **dataclasses.asdict(policy)}  # type: ignore[call-overload]
