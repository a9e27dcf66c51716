"""The reference pages name every key, column, event, command and option there is, with its default, and no other."""

import dataclasses
import math
import re
import types
import typing
from pathlib import Path

import msgspec
import pytest
import typer
import typer.main

from paceline import GossipJob, Job, LocalDevice, Pool, SplitJob, VirtualDevice, topologies
from paceline.allocation import POLICIES, from_config
from paceline.checks import Positive
from paceline.cli.main import COMMANDS, function_of
from paceline.devices.energy import PowerModel
from paceline.devices.lte_cell import Cell
from paceline.devices.states import DeviceState
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.fleets import testbed
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.aggregation import AGGREGATIONS, Aggregation
from paceline.learning.datasets import DATASETS, DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.models import MODELS, ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.tasks import TASKS, TaskSpec
from paceline.learning.views import VIEWS, ViewSpec
from paceline.topologies.split.jobs import AveragingSpec

REFERENCE = Path(__file__).parents[1] / "docs/reference"
TYPES = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    list[str]: "list of texts",
    tuple[str, ...]: "list of texts",
    dict[str, Positive]: "table of numbers",
    dict[str, bool | int | float | str]: "table",
    tuple[DeviceState, ...]: "tables",
    PowerModel: "table",
}
JOB = Job(deadline_seconds=1).described()
POOL = Pool().described()
GOSSIP = GossipJob(points=PointsSpec()).described()
SPLIT = SplitJob().described()
KINDS = {kind.table: kind for name in topologies.BUILT_IN for kind in topologies.named(name).kinds}
OWN_TABLES = {table for kind in KINDS.values() for table in kind.tables}


def section(page, heading):
    """The text below a heading, up to the next one of its level or above."""
    text = (REFERENCE / page).read_text()
    match = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,6}} |\Z)", text, re.M | re.S)
    assert match, f"{page} has no heading {heading!r}"
    return match[2]


def rows(text):
    """The cells of each row of the tables in a text, without their headings."""
    lines = [line for line in text.splitlines() if line.startswith(("| ", "|-"))]
    headings = {index - 1 for index, line in enumerate(lines) if line.startswith("|-")}
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for index, line in enumerate(lines)
        if index not in headings and not line.startswith("|-")
    ]


def shown_type(kind):
    """Write a type as the pages do."""
    choices = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices)
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return " or ".join(shown_type(choice) for choice in choices if choice is not type(None))
    if typing.get_origin(kind) is typing.Annotated:
        return shown_type(choices[0])
    return TYPES[kind]


def shown_default(value):
    """Write a default as the pages do."""
    if value is None or value in ((), [], {}, PowerModel()):
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"' if value != "required" else value
    if isinstance(value, int):
        return str(value)
    return "inf" if value == math.inf else f"{value:g}"


def fields_of(kind, defaults):
    """Name, type and default of each field that is no table of its own, as the pages show them."""
    fields = msgspec.structs.fields(kind)
    return {
        field.encode_name: (
            shown_type(field.type),
            shown_default("required" if field.required else defaults.get(field.encode_name)),
        )
        for field in fields
        if kind not in KINDS.values() or field.name not in (*kind.tables, kind.nested)
    }


def fields_of_plugin(kind):
    """The same for a dataclass."""
    kinds = typing.get_type_hints(kind)
    return {
        field.name: (
            shown_type(kinds[field.name]),
            shown_default("required" if field.default is dataclasses.MISSING else field.default),
        )
        for field in dataclasses.fields(kind)
    }


TABLES_OF_FILES = {
    "`[job]`": fields_of(Job, JOB["job"]),
    "`[task]`": fields_of(TaskSpec, JOB["task"]),
    "`[model]`": fields_of(ModelSpec, JOB["model"]),
    "`[optimizer]`": {
        "name": ("text", '"SGD"'),
        "schedule": (shown_type(typing.get_type_hints(OptimizerSpec)["schedule"]), '"constant"'),
        "lr": ("number", "0.1"),
    },
    "`[data]`": fields_of(DataSpec, JOB["data"]),
    "`[allocation]`": {"policy": ("text", '"adaptive-dab"')},
    "`[aggregation]`": {"method": ("text", '"fedavg"'), **fields_of_plugin(Aggregation)},
    "`[pool]`": {"jobs": (shown_type(list[str]), "–"), **fields_of(Pool, POOL["pool"])},
    "`[allocation]` of a pool": {"policy": ("text", '"med"')},
    "`[gossip]`": fields_of(GossipJob, GOSSIP["gossip"]),
    "`[partition]`": fields_of(PartitionSpec, GOSSIP["partition"]),
    "`[points]`": fields_of(PointsSpec, GOSSIP["points"]),
    "`[allocation]` of a gossip job": {"policy": ("text", '"all-data"')},
    "`[split]`": fields_of(SplitJob, SPLIT["split"]),
    "`[junction]`": fields_of(JunctionSpec, SPLIT["junction"]),
    "`[averaging]`": fields_of(AveragingSpec, SPLIT["averaging"]),
    "`[[view]]`": fields_of(ViewSpec, msgspec.to_builtins(ViewSpec())),
    "`[[device]]`": {
        **fields_of(LocalDevice, msgspec.structs.asdict(LocalDevice(name="pi"))),
        **fields_of(testbed.TestbedDevice, msgspec.structs.asdict(testbed.TestbedDevice(name="pi"))),
        **fields_of(VirtualDevice, msgspec.structs.asdict(VirtualDevice(name="pi", samples_per_second=1))),
    },
    "`[device.power]`": fields_of(PowerModel, msgspec.structs.asdict(PowerModel())),
    "`[[device.states]]`": fields_of(DeviceState, msgspec.structs.asdict(DeviceState(name="idle", probability=1))),
    "`[cell]`": fields_of(Cell, msgspec.structs.asdict(Cell())),
}


@pytest.mark.parametrize("heading", TABLES_OF_FILES)
def test_every_key_of_a_table_is_documented_with_type_and_default(heading):
    documented = {key.strip("`"): (kind, default) for key, kind, default, _ in rows(section("job.md", heading))}
    assert documented == TABLES_OF_FILES[heading]


def test_the_documented_tables_are_those_there_are():
    headings = re.findall(r"^### `\[+(\w+)\]+`", (REFERENCE / "job.md").read_text(), re.M)
    documented = {*KINDS, *OWN_TABLES}
    assert set(headings) == documented | {"device", "cell"}
    assert documented == JOB.keys() | POOL.keys() | GOSSIP.keys() | SPLIT.keys()
    assert JOB["optimizer"] == {"name": "SGD", "schedule": "constant", "lr": 0.1}
    assert JOB["allocation"]["policy"] == "adaptive-dab"
    assert POOL["allocation"]["policy"] == "med"
    with pytest.raises(ConfigError):
        from_config({})


@pytest.mark.parametrize("name", POLICIES.members)
def test_every_policy_is_documented_with_its_fields(name):
    documented = {key.strip("`"): (kind, default) for key, kind, default, _ in rows(section("job.md", f"`{name}`"))}
    assert documented == fields_of_plugin(POLICIES.members[name])
    assert f"Decided by the {POLICIES.members[name].decided_by}." in section("job.md", f"`{name}`")


@pytest.mark.parametrize("name", AGGREGATIONS.members)
def test_every_aggregation_is_documented_with_its_own_fields(name):
    documented = {key.strip("`"): (kind, default) for key, kind, default, _ in rows(section("job.md", f"`{name}`"))}
    fields, shared = fields_of_plugin(AGGREGATIONS.members[name]), fields_of_plugin(Aggregation)
    assert documented == {key: shown for key, shown in fields.items() if shared.get(key) != shown}


def test_every_model_dataset_and_view_is_named():
    assert set(re.findall(r"`([a-z0-9-]+)`", section("job.md", "`[model]`"))) >= set(MODELS)
    assert set(re.findall(r"`([a-z0-9-]+)`", section("job.md", "`[data]`"))) >= set(DATASETS)
    assert set(re.findall(r"`([a-z0-9-]+)`", section("job.md", "`[[view]]`"))) >= set(VIEWS)
    assert SPLIT["model"]["name"] == "leaf-cnn"


@pytest.mark.parametrize("name", TASKS.members)
def test_every_task_is_documented_with_its_losses_and_its_usual_model(name):
    (row,) = [row for row in rows(section("job.md", "Built-in tasks")) if row[0] == f"`{name}`"]
    task = TASKS.members[name]
    assert re.findall(r"`([a-z-]+)`", row[2]) == list(task.losses_by_name)
    assert row[4] == f"`{task.default_model}`"


def command(name):
    """A command as typer understands it."""
    app, own = typer.Typer(add_completion=False), name.split()[-1]
    app.command(own)(function_of(own))
    return typer.main.get_command(app)


@pytest.mark.parametrize("name", [*(name for name in COMMANDS if name != "axon"), "axon worker", "axon call"])
def test_every_option_of_a_command_is_documented_with_its_default(name):
    parameters = [parameter for parameter in command(name).params if parameter.name != "help"]
    known = {}
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            known[(parameter.metavar or parameter.name).upper()] = "required" if parameter.required else "–"
        else:
            default = "required" if parameter.required else None if parameter.default is False else parameter.default
            known[parameter.opts[0]] = shown_default(default).strip('"')
    text = section("cli.md", f"paceline {name}")
    if "(#options-of-a-device)" in text:
        text += section("cli.md", "Options of a device")
    table = [row for row in rows(text) if re.match("`(--|[A-Z])", row[0])]
    assert {first.split(",")[0].strip("`"): default for first, default, _ in table} == known


def test_the_documented_commands_are_those_there_are():
    documented = re.findall(r"^## paceline ([\w-]+)", (REFERENCE / "cli.md").read_text(), re.M)
    assert list(dict.fromkeys(documented)) == list(COMMANDS)


@pytest.mark.parametrize("table", KINDS)
def test_every_column_of_a_recorded_table_is_described(table):
    page = "run" if table == "job" else table
    for recorded in topologies.announced_by({table: {}}, "")[0].kinds[KINDS[table]].recorded:
        described = rows(section(f"{page}-folder.md", recorded.file))
        names = [name for row in described for name in re.findall(r"`(\w+)`", row[0])]
        assert names == [column.name for column in recorded.columns]


def defined_events(base=Event):
    """The events of Paceline: those that nothing else is derived from."""
    derived = [one for one in base.__subclasses__() if one.__module__.startswith("paceline.")]
    return [event for one in derived for event in defined_events(one)] or [base]


def test_every_event_is_documented_with_its_fields():
    documented = {re.findall(r"`(\w+)`", row[0])[0]: row for row in rows(section("run-folder.md", "Events"))}
    kinds = {kind.__struct_config__.tag: kind for kind in defined_events()}
    assert documented.keys() == kinds.keys()
    for tag, row in documented.items():
        assert {*re.findall(r"`(\w+)`", row[2]), "at"} == set(kinds[tag].__struct_fields__), tag
        assert row[0].endswith("*") == ("on the device only" in kinds[tag].__doc__), tag
