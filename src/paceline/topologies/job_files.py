"""Job files of all topologies: tables to a typed job, by the types of its fields."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paceline import topologies
from paceline.checks import build, fit
from paceline.config import check_keys, read_tables, table_named
from paceline.errors import ConfigError
from paceline.topologies.base import JobSpec
from paceline.topologies.job_tables import TableField, table_fields

_IMPORTS = ("import", "method", "policy", "transform")  # keys that may hold an import path
_PATHS = (("data", "path"), ("model", "start"))  # tables and keys with a path; a junction starts otherwise


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
    rules = dict(table_named(tables, kind.table, source))
    where = f"{source}: [{kind.table}]"
    check_keys(rules, [name for name in kind.__struct_fields__ if name not in kind.tables], where)
    values: dict[str, Any] = {}
    if kind.nested and kind.nested in rules:
        files = _fitted(where, fit, kind.nested, rules.pop(kind.nested), list[str])
        values[kind.nested] = tuple(_load_nested((base or Path()) / file, kind) for file in files)
    values |= rules
    for name, field in table_fields(kind, kind.tables).items():
        if name in tables:
            values[name] = _parse_table(tables, field, source, base)
    job: JobSpec = _fitted(where, build, kind, values)
    return job


def parse_submitted(tables: Mapping[str, Any], outer: type[JobSpec]) -> JobSpec:
    """Make a job of tables that came over the network: no files and no code of this machine, and with a name.

    Args:
        outer: the kind of job that it is submitted to.
    """
    source = "the job"
    _check_nested(tables, outer, source)
    _, kind = topologies.announced_by(tables, source)
    for table in kind.tables:
        found = tables.get(table)
        for key, value in found.items() if isinstance(found, dict) else ():
            if (table, key) in _PATHS or key == "import" or (key in _IMPORTS and ":" in str(value)):
                raise ConfigError(f"{source}: [{table}] {key}: a submitted job cannot load files; choose by name")
    if not table_named(tables, kind.table, source).get("name"):
        raise ConfigError(f"{source}: [{kind.table}] name is missing; a submitted job needs one")
    return parse_job(tables, source)


def imports_of(tables: Mapping[str, Any]) -> list[str]:
    """List the import paths in the tables of a job; imports nothing."""
    named = [str(table.get(key, "")) for table in tables.values() if isinstance(table, Mapping) for key in _IMPORTS]
    return [path for path in named if ":" in path]


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


def _parse_table(tables: Mapping[str, Any], field: TableField, source: str, base: Path | None) -> Any:
    given, where = tables[field.name], f"{source}: [{field.name}]"
    if not field.is_list:
        return _fitted(where, field.make, _resolved(field.name, dict(table_named(tables, field.name, source)), base))
    if not isinstance(given, list | tuple):
        raise ConfigError(f"{source}: {field.name} is {reprlib.repr(given)}; it is a list of tables, [[{field.name}]]")
    return _fitted(where, field.make, given)


def _fitted(where: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """Make something of values in a file; what does not fit is a `ConfigError` that says where."""
    try:
        return make(*arguments)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def _resolved(name: str, table: dict[str, Any], base: Path | None) -> dict[str, Any]:
    """Make paths absolute, so that the table of this name means the same from anywhere."""
    for key in (key for its_table, key in _PATHS if its_table == name):
        if base is not None and isinstance(table.get(key), str):
            table[key] = os.path.abspath(base / table[key])
    for key in _IMPORTS:
        file, _, name = str(table.get(key, "")).rpartition(":")
        if base is not None and file.endswith(".py"):
            table[key] = f"{os.path.abspath(base / file)}:{name}"
    return table
