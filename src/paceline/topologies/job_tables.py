"""The tables of a job: what a file or a program may give for each, and the spec or policy that is made of it."""

from __future__ import annotations

import functools
import inspect
import os
import reprlib
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline import allocation
from paceline.allocation import AllocationPolicy
from paceline.checks import build, fit
from paceline.errors import ConfigError, one_line
from paceline.learning import aggregation
from paceline.learning.aggregation import Aggregation
from paceline.learning.datasets import DataSpec
from paceline.learning.optimizers import OptimizerSpec, Option
from paceline.learning.sources import is_source


class TableField(typing.NamedTuple):
    """A field of a job that is a table of its own in a job file.

    Attributes:
        kind: spec or policy, or that of each of a list.
        is_list: whether it is a list of tables.
        default: what it is if it is left out.
    """

    name: str
    kind: Any
    is_list: bool
    default: Any

    def make(self, given: Any) -> Any:
        """Make a spec or policy, or a list of them; raises `ValueError` for what cannot be.

        Args:
            given: the table; or its name alone, where the rest is as by default; or a class or function of the user's,
                if the spec takes that; or what is made already.
        """
        if not self.is_list:
            return self._make_one(given)
        if not isinstance(given, list | tuple):
            raise ValueError(f"it must be a list of tables, not {_shown(given)}")
        return tuple(self._make_entry(number, one) for number, one in enumerate(given, 1))

    def _make_entry(self, number: int, given: Any) -> Any:
        try:
            return self._make_one(given)
        except ValueError as error:
            raise ValueError(f"entry {number}: {error}") from None

    def _make_one(self, given: Any) -> Any:
        if isinstance(given, self.kind):
            return given
        if isinstance(given, str | os.PathLike):
            return self._from_table({_naming_key(self.kind, given): given})
        if isinstance(given, Mapping):
            return self._from_table(given)
        is_class, is_policy = inspect.isclass(given), issubclass(self.kind, AllocationPolicy)
        if is_policy and (isinstance(given, AllocationPolicy) or (is_class and issubclass(given, AllocationPolicy))):
            return self._fitting(given() if is_class else given)
        if is_class and issubclass(self.kind, Aggregation) and issubclass(given, Aggregation):
            return build(given, {})
        if hasattr(self.kind, "of") and (is_class or inspect.isroutine(given)):
            return self.kind.of(given)
        if self.kind is DataSpec and is_source(given):
            return DataSpec.of(*given) if isinstance(given, tuple) and len(given) == 2 else DataSpec.of(given)
        own = " a class or function of yours," if hasattr(self.kind, "of") else ""
        raise ValueError(f"it must be a name, a table,{own} or a {self.kind.__name__}, not {_shown(given)}")

    def _from_table(self, table: Mapping[str, Any]) -> Any:
        if issubclass(self.kind, AllocationPolicy):
            is_required = self.default is msgspec.NODEFAULT
            default = {} if is_required else {"policy": allocation.describe(self.default)["policy"]}
            try:
                return self._fitting(allocation.from_config({**default, **table}))
            except ConfigError as error:
                raise ValueError(str(error)) from error
        if issubclass(self.kind, Aggregation):
            try:
                return aggregation.from_config(table)
            except ConfigError as error:
                raise ValueError(str(error)) from error
        if self.kind is OptimizerSpec:
            named = {"name": self.default.name, **{key: table[key] for key in ("name", "schedule") if key in table}}
            options = {key: fit(key, value, Option) for key, value in table.items() if key not in named}
            return build(OptimizerSpec, {**named, "options": options})
        return build(self.kind, table)

    def _fitting(self, policy: AllocationPolicy) -> Any:
        if not isinstance(policy, self.kind):
            name = allocation.describe(policy)["policy"]
            others = [other for other, kind in allocation.POLICIES.members.items() if issubclass(kind, self.kind)]
            raise ValueError(f"policy {name!r} is not for such a job; allowed: {', '.join(sorted(others))}")
        return policy


@functools.cache
def table_fields(job: type[msgspec.Struct], names: tuple[str, ...]) -> dict[str, TableField]:
    """Return those of a job's fields that are tables, by name."""
    found = {}
    for field in msgspec.structs.fields(job):
        if field.name in names:
            kind = _without_none(field.type)
            is_list = typing.get_origin(kind) is tuple
            found[field.name] = TableField(
                field.name, typing.get_args(kind)[0] if is_list else kind, is_list, field.default
            )
    return found


def _naming_key(kind: Any, given: str | os.PathLike[str]) -> str:
    """Return the key of a table that a string alone stands for: its import, its path, its name, or else its first."""
    if issubclass(kind, AllocationPolicy):
        return "policy"
    if issubclass(kind, Aggregation):
        return "method"
    keys = [field.encode_name for field in msgspec.structs.fields(kind)]
    if ":" in str(given) and "import" in keys:
        return "import"
    if "path" in keys and (isinstance(given, os.PathLike) or os.sep in given or os.path.splitext(given)[1]):
        return "path"
    return "name" if "name" in keys else keys[0]


def _without_none(kind: Any) -> Any:
    chosen = [one for one in typing.get_args(kind) if one is not type(None)]
    return chosen[0] if type(None) in typing.get_args(kind) and len(chosen) == 1 else kind


def _shown(given: Any) -> str:
    return one_line(reprlib.repr(given))
