"""Topologies: ways to train together, each a plug-in in a folder of its own, and the registry of them all.

A topology comes with Paceline, or with a package that declares an entry point in the group ``paceline.topologies``,
named for the topology, that refers to its `Topology` instance.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paceline.errors import ConfigError
from paceline.spelling import suggest

if TYPE_CHECKING:
    from paceline.topologies.base import JobSpec, Topology

BUILT_IN = {"parallel": ("job", "pool"), "gossip": ("gossip",), "split": ("split",)}
"""Topologies that come with Paceline, and the tables of job files that announce their jobs."""

GROUP = "paceline.topologies"


def named(name: str) -> Topology[Any]:
    """Return a topology by name; raises `ConfigError` for one that is not installed."""
    if name in BUILT_IN:
        found: Topology[Any] = importlib.import_module(f"paceline.topologies.{name}.topology").TOPOLOGY
        return found
    entries = _entries()
    if name not in entries:
        raise ConfigError(f"topology {name!r} is not installed; {suggest(name, [*BUILT_IN, *entries])}")
    loaded: Topology[Any] = entries[name].load()
    return loaded


def announced_by(tables: Mapping[str, Any], source: str) -> tuple[Topology[Any], type[JobSpec]]:
    """Return the topology and the kind of job that the tables of a job file announce; raises `ConfigError`."""
    for name, known in BUILT_IN.items():
        for table in known:
            if table in tables:
                topology = named(name)
                return topology, next(kind for kind in topology.kinds if kind.table == table)
    for name in _entries():
        topology = named(name)
        for kind in topology.kinds:
            if kind.table in tables:
                return topology, kind
    named_there = next(iter(tables), "")
    raise ConfigError(f"{source}: no table says what kind of job this is; {suggest(named_there, announcing_tables())}")


def announcing_tables() -> list[str]:
    """Return the tables that announce jobs, of all topologies."""
    others = [kind.table for name in _entries() for kind in named(name).kinds]
    return [table for known in BUILT_IN.values() for table in known] + others


def of_job(job: JobSpec) -> Topology[Any]:
    """Return the topology of a job."""
    return announced_by({job.table: {}}, type(job).__name__)[0]


def _entries() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
