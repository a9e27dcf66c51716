"""Job files of all topologies: tables to a typed job, by the types of its fields."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from paceline import allocation, topologies
from paceline.allocation import AllocationPolicy
from paceline.config import check_keys, convert, is_struct_type, read_tables, table_named
from paceline.errors import ConfigError
from paceline.learning.tasks import OptimizerSpec, Option
from paceline.topologies.base import JobSpec


def load_job(path: Path | str) -> JobSpec:
    """Return the job in a file, of whatever kind; raises `ConfigError`."""
    path = Path(path)
    return parse_job(read_tables(path), str(path), base=path.parent)


def parse_job(tables: Mapping[str, Any], source: str, *, base: Path | None = None) -> JobSpec:
    """Make a job of the tables of a job file, or of the record of a run; raises `ConfigError`.

    Args:
        source: where they are from, for errors.
        base: what relative paths in them are relative to.
    """
    _, kind = topologies.announced_by(tables, source)
    check_keys(tables, (kind.table, *kind.tables), source, "table")
    types = {field.name: field for field in msgspec.structs.fields(kind)}
    rules = dict(table_named(tables, kind.table, source))
    where = f"{source}: [{kind.table}]"
    check_keys(rules, [name for name in types if name not in kind.tables], where)
    values: dict[str, Any] = {}
    if kind.nested and kind.nested in rules:
        files = convert(rules.pop(kind.nested), list[str], f"{where} {kind.nested}")
        values[kind.nested] = tuple(_load_nested((base or Path()) / file, kind) for file in files)
    values |= {name: convert(value, types[name].type, f"{where} {name}") for name, value in rules.items()}
    for name in kind.tables:
        if name in tables:
            values[name] = _parse_table(tables, name, types[name], source, base)
    missing = [name for name, field in types.items() if field.required and name not in values]
    if missing:
        raise ConfigError(f"{where}: {missing[0]} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def parse_submitted(tables: Mapping[str, Any], outer: type[JobSpec]) -> JobSpec:
    """Make a job of tables that came over the network: no files and no code of this machine, and with a name.

    Args:
        outer: the kind of job that it is submitted to.
    """
    source = "the job"
    _check_nested(tables, outer, source)
    _, kind = topologies.announced_by(tables, source)
    for table in kind.tables:
        for key in ("path", "import"):
            if isinstance(tables.get(table), dict) and key in tables[table]:
                raise ConfigError(f"{source}: [{table}] {key}: a submitted job cannot load files; choose by name")
    if not table_named(tables, kind.table, source).get("name"):
        raise ConfigError(f"{source}: [{kind.table}] name is missing; a submitted job needs one")
    return parse_job(tables, source)


def _load_nested(path: Path, outer: type[JobSpec]) -> JobSpec:
    """Return a job in a file that another file lists; it is named as its file, unless it has a name."""
    tables, source = read_tables(path), str(path)
    _check_nested(tables, outer, source)
    job = parse_job(tables, source, base=path.parent)
    if getattr(job, "name", None) != "":
        return job
    try:
        return msgspec.structs.replace(job, name=path.stem)
    except ValueError as error:
        raise ConfigError(f"{source}: [{job.table}]: {error}; or give the job another name") from None


def _check_nested(tables: Mapping[str, Any], outer: type[JobSpec], source: str) -> None:
    for table in outer.tables:
        if table in tables:
            raise ConfigError(f"{source}: [{table}] is for the [{outer.table}] to decide; leave it out")


def _parse_table(
    tables: Mapping[str, Any], name: str, field: msgspec.structs.FieldInfo, source: str, base: Path | None
) -> Any:
    kind, where = _without_none(field.type), f"{source}: [{name}]"
    if typing.get_origin(kind) is tuple:
        entries = tables[name]
        if not isinstance(entries, list):
            raise ConfigError(f"{source}: {name} is {entries!r:.60}; it is a list of tables, [[{name}]]")
        return tuple(
            convert(entry, typing.get_args(kind)[0], f"{source}: {name} {number}")
            for number, entry in enumerate(entries, 1)
        )
    table = dict(table_named(tables, name, source))
    if kind is OptimizerSpec:
        chosen = table.pop("name", field.default.name)
        options = {key: convert(value, Option, f"{where} {key}") for key, value in table.items()}
        return convert({"name": chosen, "options": options}, OptimizerSpec, where)
    if is_struct_type(kind):
        return convert(_resolved(table, base), kind, where)
    if isinstance(kind, type) and issubclass(kind, AllocationPolicy):
        default = {} if field.required else {"policy": allocation.describe(field.default)["policy"]}
        try:
            return allocation.from_config({**default, **table})
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
    return convert(table, kind, where)


def _without_none(kind: Any) -> Any:
    chosen = [one for one in typing.get_args(kind) if one is not type(None)]
    return chosen[0] if type(None) in typing.get_args(kind) and len(chosen) == 1 else kind


def _resolved(table: dict[str, Any], base: Path | None) -> dict[str, Any]:
    """Make paths absolute, so that the table means the same from anywhere."""
    if base is not None and isinstance(table.get("path"), str):
        table["path"] = os.path.abspath(base / table["path"])
    file, _, factory = str(table.get("import", "")).rpartition(":")
    if base is not None and file.endswith(".py"):
        table["import"] = f"{os.path.abspath(base / file)}:{factory}"
    return table
