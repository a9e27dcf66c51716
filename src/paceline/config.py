"""Job and fleet files: TOML to typed objects in one strict step.

An unknown key, a wrong type or a missing value is a `ConfigError` that names the file, the key, the value and what is
allowed.
"""

from __future__ import annotations

import collections
import os
import reprlib
import sys
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from paceline import allocation
from paceline.allocation import AllocationPolicy, PoolPolicy
from paceline.checks import why_refused
from paceline.devices.cell import Cell
from paceline.errors import ConfigError
from paceline.fleets.devices import EmulatedDevice, in_cell
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.testbed.devices import TestbedDevice
from paceline.learning.averaging import AggregationSpec
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.models import ModelSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.points import PointsSpec
from paceline.learning.tasks import OptimizerSpec, Option
from paceline.learning.views import ViewSpec
from paceline.spelling import suggest
from paceline.topologies.gossip import GossipJob
from paceline.topologies.gossip.jobs import TABLES as GOSSIP_TABLES
from paceline.topologies.multitask import PoolSpec
from paceline.topologies.parallel import Job
from paceline.topologies.parallel.jobs import TABLES
from paceline.topologies.split import AveragingSpec, SplitJob
from paceline.topologies.split.jobs import TABLES as SPLIT_TABLES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_FILE_BYTES = 1 << 20
MAX_DEVICES = 100_000
"""In a fleet file, with their counts."""

_TABLES = {
    "model": ModelSpec,
    "data": DataSpec,
    "aggregation": AggregationSpec,
    "partition": PartitionSpec,
    "points": PointsSpec,
    "junction": JunctionSpec,
    "averaging": AveragingSpec,
}
_COMMANDS: dict[type[EmulatedDevice], str] = {VirtualDevice: "simulate", TestbedDevice: "testbed"}
_NOT_NEEDED: dict[type[EmulatedDevice], tuple[str, ...]] = {
    VirtualDevice: (),
    TestbedDevice: ("samples_per_second", "speed_noise", "link_noise"),  # it has its own speed and its own noise
}
_Device = typing.TypeVar("_Device", bound=EmulatedDevice)
_POOL_RULES = {field.name: field.type for field in msgspec.structs.fields(PoolSpec) if field.name != "allocation"}
_RULES = {field.name: field.type for field in msgspec.structs.fields(Job) if field.name not in TABLES}
_GOSSIP_RULES = {
    field.name: field.type for field in msgspec.structs.fields(GossipJob) if field.name not in GOSSIP_TABLES
}
_SPLIT_RULES = {field.name: field.type for field in msgspec.structs.fields(SplitJob) if field.name not in SPLIT_TABLES}


def load_job(path: Path) -> Job:
    """The job in a file; raises `ConfigError`."""
    return parse_job(_read(path), str(path), base=path.parent)


def parse_job(tables: Mapping[str, Any], source: str, *, base: Path | None = None) -> Job:
    """A job from the tables of a job file, or from the record of a run.

    Args:
        source: where they are from, for errors.
        base: what relative paths in it are relative to.
    """
    _check_keys(tables, ("job", *TABLES), source, "table")
    typed, parts = _rules(tables, "job", _RULES, source), _parts(tables, source, base)
    try:
        return Job(**typed, **parts)
    except TypeError:
        raise ConfigError(f"{source}: [job]: deadline_seconds is missing; it is how long a round may take") from None
    except ValueError as error:
        raise ConfigError(f"{source}: [job]: {error}") from None


def is_gossip(path: Path) -> bool:
    """Whether a file is a gossip job rather than a job with an orchestrator; `ConfigError` if it cannot be read."""
    return "gossip" in _read(path)


def load_gossip(path: Path) -> GossipJob:
    """The gossip job in a file; raises `ConfigError`."""
    return parse_gossip(_read(path), str(path), base=path.parent)


def parse_gossip(tables: Mapping[str, Any], source: str, *, base: Path | None = None) -> GossipJob:
    """A gossip job from the tables of its file, or from the record of a run; arguments as for `parse_job`."""
    _check_keys(tables, ("gossip", *GOSSIP_TABLES), source, "table")
    typed, parts = _rules(tables, "gossip", _GOSSIP_RULES, source), _parts(tables, source, base)
    try:
        return GossipJob(**typed, **parts)
    except ValueError as error:
        raise ConfigError(f"{source}: [gossip]: {error}") from None


def is_split(path: Path) -> bool:
    """Whether a file is a split job; `ConfigError` if it cannot be read."""
    return "split" in _read(path)


def load_split(path: Path) -> SplitJob:
    """The split job in a file; raises `ConfigError`."""
    return parse_split(_read(path), str(path), base=path.parent)


def parse_split(tables: Mapping[str, Any], source: str, *, base: Path | None = None) -> SplitJob:
    """A split job from the tables of its file, or from the record of a run; arguments as for `parse_job`."""
    _check_keys(tables, ("split", *SPLIT_TABLES), source, "table")
    typed, parts = _rules(tables, "split", _SPLIT_RULES, source), _parts(tables, source, base)
    views = tables.get("view")
    if views is not None:
        if not isinstance(views, list):
            raise ConfigError(f"{source}: view is {reprlib.repr(views)}; views are tables, [[view]]")
        parts["view"] = tuple(
            _convert(view, ViewSpec, f"{source}: view {number}") for number, view in enumerate(views, 1)
        )
    try:
        return SplitJob(**typed, **parts)
    except ValueError as error:
        raise ConfigError(f"{source}: [split]: {error}") from None


def _rules(tables: Mapping[str, Any], table: str, kinds: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The keys of the table that is named for the kind of job."""
    rules = _table(tables, table, source)
    _check_keys(rules, list(kinds), f"{source}: [{table}]", "key")
    return {name: _convert(value, kinds[name], f"{source}: [{table}] {name}") for name, value in rules.items()}


def _parts(tables: Mapping[str, Any], source: str, base: Path | None) -> dict[str, Any]:
    """What the other tables of a job make."""
    parts: dict[str, Any] = {}
    for name, kind in _TABLES.items():
        if name in tables:
            table = _resolved(_table(tables, name, source), base)
            parts[name] = _convert(table, kind, f"{source}: [{name}]")
    if "optimizer" in tables:
        table = dict(_table(tables, "optimizer", source))
        name = table.pop("name", "SGD")
        options = {key: _convert(value, Option, f"{source}: [optimizer] {key}") for key, value in table.items()}
        parts["optimizer"] = _convert({"name": name, "options": options}, OptimizerSpec, f"{source}: [optimizer]")
    if "allocation" in tables:
        table = dict(_table(tables, "allocation", source))
        parts["allocation"] = _policy(table, source)
    return parts


def is_pool(path: Path) -> bool:
    """Whether a file is a pool file rather than a job file; raises `ConfigError` if it cannot be read."""
    return "pool" in _read(path)


def load_pool(path: Path) -> tuple[PoolSpec, list[Job]]:
    """The pool in a file, and the jobs that it begins with; raises `ConfigError`."""
    tables, source = _read(path), str(path)
    _check_keys(tables, ("pool", "allocation"), source, "table")
    rules = dict(_table(tables, "pool", source))
    files = _convert(rules.pop("jobs", []), list[str], f"{source}: [pool] jobs")
    _check_keys(rules, ["jobs", *_POOL_RULES], f"{source}: [pool]", "key")
    typed = {name: _convert(value, _POOL_RULES[name], f"{source}: [pool] {name}") for name, value in rules.items()}
    table = {"policy": "med", **_table(tables, "allocation", source)}
    policy = _policy(table, source)
    if not isinstance(policy, PoolPolicy):
        pooled = ", ".join(sorted(name for name, kind in allocation.POLICIES.items() if issubclass(kind, PoolPolicy)))
        name = table["policy"]
        raise ConfigError(f"{source}: [allocation]: policy {name!r} is for one job alone; a pool's is one of {pooled}")
    try:
        spec = PoolSpec(allocation=policy, **typed)
    except ValueError as error:
        raise ConfigError(f"{source}: [pool]: {error}") from None
    jobs = [
        parse_pool_job(_read(file), policy, str(file), base=file.parent) for file in map(path.parent.joinpath, files)
    ]
    names = collections.Counter(job.name for job in jobs)
    for name, count in names.items():
        if count > 1:
            raise ConfigError(f"{source}: {count} jobs are called {name!r}; names must differ")
    return spec, jobs


def parse_pool_job(tables: Mapping[str, Any], policy: PoolPolicy, source: str, *, base: Path | None = None) -> Job:
    """A job that shares a pool: its learners are the pool's to allocate. Without a name, it has its file's."""
    if "allocation" in tables:
        raise ConfigError(f"{source}: [allocation]: learners of a pool are allocated by the pool; leave this table out")
    job = parse_job(tables, source, base=base)
    if job.data.placement == "local":
        raise ConfigError(f'{source}: [data] placement is "local"; jobs of a pool are "served"')
    try:
        return msgspec.structs.replace(job, name=job.name or Path(source).stem, allocation=policy)
    except ValueError as error:
        raise ConfigError(f"{source}: [job]: {error}; or name the job otherwise") from None


def parse_submitted(tables: Mapping[str, Any], policy: PoolPolicy) -> Job:
    """A job that came over the network: it may name data and models, but no files and no code of this machine."""
    source = "the job"
    for table, key, instead in (("data", "path", "name a dataset"), ("model", "import", "name a model")):
        if key in _table(tables, table, source):
            raise ConfigError(f"{source}: [{table}] {key}: a job that is submitted cannot have files loaded; {instead}")
    if not _table(tables, "job", source).get("name"):
        raise ConfigError(f"{source}: [job] name is missing; a job that is submitted needs one")
    return parse_pool_job(tables, policy, source)


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a job file as they are, to be sent elsewhere; the job is called as the file, if it has no name."""
    tables = _read(path)
    rules = _table(tables, "job", str(path))
    return {**tables, "job": {"name": path.stem, **rules}}


def _policy(table: Mapping[str, Any], source: str) -> AllocationPolicy:
    try:
        return allocation.from_config(table)
    except ConfigError as error:
        raise ConfigError(f"{source}: [allocation]: {error}") from error


def load_fleet(path: Path) -> list[VirtualDevice]:
    """The devices in a fleet file, to be simulated; if it has a cell, with their rates there; raises `ConfigError`."""
    return _load_devices(path, VirtualDevice)


def load_testbed(path: Path) -> list[TestbedDevice]:
    """The devices in a fleet file, to be emulated; raises `ConfigError`."""
    devices = _load_devices(path, TestbedDevice)
    return [
        msgspec.structs.replace(device, data=os.path.abspath(path.parent / device.data)) if device.data else device
        for device in devices
    ]


def _load_devices(path: Path, kind: type[_Device]) -> list[_Device]:
    tables = _read(path)
    _check_keys(tables, ("device", "cell"), str(path), "table")
    entries = tables.get("device")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: there is no [[device]]; a fleet has at least one")
    devices: list[_Device] = []
    for number, entry in enumerate(entries, 1):
        source = f"{path}: device {number}"
        devices.append(_convert(_keys_for(kind, entry, source), kind, source))
    num_devices = sum(device.count for device in devices)
    if num_devices > MAX_DEVICES:
        raise ConfigError(f"{path}: there are {num_devices} devices, by their counts; allowed: {MAX_DEVICES}")
    names = collections.Counter(single.name for device in devices for single in device.each())
    name, count = names.most_common(1)[0]
    if count > 1:
        raise ConfigError(f"{path}: {count} devices are called {name!r}; names must differ")
    return _placed(tables, devices, path)


def _placed(tables: Mapping[str, Any], devices: list[_Device], path: Path) -> list[_Device]:
    """Devices as they are, or with their rates in the cell of the fleet file."""
    if "cell" in tables:
        cell = _convert(_table(tables, "cell", str(path)), Cell, f"{path}: [cell]")
        try:
            return in_cell(cell, devices)
        except ConfigError as error:
            raise ConfigError(f"{path}: [cell]: {error}") from error
    for number, device in enumerate(devices, 1):
        if device.distance_metres is not None:
            raise ConfigError(
                f"{path}: device {number}: distance_metres is {device.distance_metres}, but there is no [cell]"
            )
    return devices


def _keys_for(kind: type[EmulatedDevice], entry: Any, source: str) -> Any:
    """A device without the keys that it does not need; one that it cannot heed is an error."""
    if not isinstance(entry, dict):
        return entry
    for other, command in _COMMANDS.items():
        for key in entry:
            if key in other.__struct_fields__ and key not in (*kind.__struct_fields__, *_NOT_NEEDED[kind]):
                raise ConfigError(f"{source}: {key} is for paceline {command}; paceline {_COMMANDS[kind]} cannot do it")
    return {key: value for key, value in entry.items() if key not in _NOT_NEEDED[kind]}


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; is it the right file?")
    is_json = path.suffix == ".json"  # as runs keep what was asked for
    try:
        tables: dict[str, Any] = msgspec.json.decode(data, type=dict) if is_json else tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also of numbers too long, and tables too deep
        raise ConfigError(f"{path}: not {'JSON' if is_json else 'TOML'}: {error}") from error
    return tables


def _table(tables: Mapping[str, Any], name: str, source: str) -> Mapping[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {name} is {reprlib.repr(table)}; it must be a table, [{name}]")
    return table


def _resolved(table: Mapping[str, Any], base: Path | None) -> dict[str, Any]:
    """The table with paths made absolute, so that it means the same from anywhere."""
    resolved = dict(table)
    if base is not None and isinstance(resolved.get("path"), str):
        resolved["path"] = os.path.abspath(base / resolved["path"])
    file, _, factory = str(resolved.get("import", "")).rpartition(":")
    if base is not None and file.endswith(".py"):
        resolved["import"] = f"{os.path.abspath(base / file)}:{factory}"
    return resolved


def _convert(value: Any, kind: Any, source: str) -> Any:
    is_struct = _is_struct(kind)
    if is_struct:
        if not isinstance(value, dict):
            raise ConfigError(f"{source}: {reprlib.repr(value)} must be a table")
        _check_keys(value, [field.encode_name for field in msgspec.structs.fields(kind)], source, "key")
        value = {**value, **_inner_tables(value, kind, source)}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        key = where.rstrip("`").lstrip(".").partition("[")[0]
        if is_struct and not key:
            raise ConfigError(f"{source}: {message}") from None
        if is_struct:
            types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
            value, kind = value.get(key), types.get(key)
        else:
            source, _, key = source.rpartition(" ")
        allowed = why_refused(value, kind)
        if allowed is not None:
            raise ConfigError(f"{source}: {key} is {value}; {allowed}") from None
        raise ConfigError(f"{source} {key} = {reprlib.repr(value)}: {message}{_choices(kind)}") from None


def _inner_tables(value: Mapping[str, Any], kind: type[msgspec.Struct], source: str) -> dict[str, Any]:
    """Those keys of a table that hold tables in turn, converted one by one so that a message names the right one."""
    inner = {}
    for field in msgspec.structs.fields(kind):
        entries, kinds = value.get(field.encode_name), typing.get_args(field.type)
        if isinstance(entries, dict) and _is_struct(field.type):
            inner[field.encode_name] = _convert(entries, field.type, f"{source} {field.encode_name}")
        elif isinstance(entries, list) and kinds and _is_struct(kinds[0]):
            inner[field.encode_name] = [
                _convert(entry, kinds[0], f"{source} {field.encode_name} {number}")
                for number, entry in enumerate(entries, 1)
            ]
    return inner


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _choices(kind: Any) -> str:
    """The end of a message about a key that takes one of a few words or numbers; nothing for other keys."""
    is_choice = typing.get_origin(kind) is Literal
    return f"; allowed: {', '.join(map(str, typing.get_args(kind)))}" if is_choice else ""


def _check_keys(table: Mapping[str, Any], allowed: Sequence[str], source: str, what: str) -> None:
    for key in table:
        if key not in allowed:
            raise ConfigError(f"{source}: unknown {what} {key!r}; {suggest(key, allowed)}")
