"""Types, choices and ranges come from annotations, with one message for Python and for files."""

import dataclasses
import math
import typing
from typing import Annotated, Literal

import msgspec
import numpy as np
import pytest
from msgspec import Meta

import paceline
from paceline import allocation, checks
from paceline.checks import Count, Positive, PositiveRatio, Ratio, RatioBelowOne, build, check_fields, fit, why_refused
from paceline.config import convert
from paceline.devices.contention import ForeignUsage
from paceline.devices.energy import PowerModel
from paceline.devices.lte_cell import Cell
from paceline.devices.profiles import Profile, Rate
from paceline.errors import ConfigError
from paceline.learning import aggregation
from paceline.learning.audits import Auditor
from paceline.testing.allocation import TERMS
from paceline.topologies.base import JobSpec
from paceline.topologies.gossip.graphs import GraphSpec
from paceline.topologies.job_files import parse_job

RATE = Rate(1.0)


def test_a_field_that_may_be_none_costs_no_message(monkeypatch):
    monkeypatch.setattr(checks, "_Unfit", None)  # making one takes longer than all other checks of a struct
    assert fit("key", None, Count | None) is None
    assert fit("key", None, None | Positive | dict[str, Positive]) is None
    check_fields(TERMS)


@pytest.mark.parametrize(
    ("hint", "wrong", "allowed"),
    [
        (Count, 0, "it must be at least 1"),
        (Count | None, -1, "it must be at least 1"),
        (Count, 1.0, "it must be a whole number"),
        (Count, True, "it must be a whole number"),
        (Count | None, "1", "it must be a whole number"),
        (Positive, 0.0, "it must be above 0"),
        (Positive, math.inf, "it must be above 0 and at most 1e+15"),
        (Positive, math.nan, "it must be above 0"),
        (Positive, -(10**400), "it must be above 0"),
        (Positive, "1", "it must be a number"),
        (Positive | dict[str, Positive], "fast", "it must be a number or a table"),
        (Positive | dict[str, Positive], 0, "it must be above 0"),
        (Ratio, 1.5, "allowed: 0 to 1"),
        (Ratio, math.nan, "allowed: 0 to 1"),
        (PositiveRatio, 0, "it must be above 0 and at most 1"),
        (RatioBelowOne, 1, "it must be at least 0 and below 1"),
        (Annotated[int, Meta(ge=0, le=1 << 60)], -1, "allowed: 0 to 1152921504606846976"),
        (str, 3, "it must be text"),
        (str, b"x", "it must be text"),
        (bool, 1, "it must be true or false"),
        (Literal["iid", "dirichlet"], "IID", "did you mean 'iid'? Allowed: iid, dirichlet"),
        (Literal["iid", "dirichlet"], None, "allowed: iid, dirichlet"),
        (Literal[1, 2], True, "allowed: 1, 2"),
        (tuple[str, ...], "text", "it must be a list"),
        (tuple[int, int], (1,), "it must have 2 values"),
        (dict[str, int], [], "it must be a table"),
        (Rate, 3, "it must be a table, or a Rate"),
        (allocation.AllocationPolicy, 3, "it must be an AllocationPolicy"),
    ],
)
def test_what_does_not_fit_its_annotation(hint, wrong, allowed):
    assert why_refused(wrong, hint) == allowed


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (tuple[str, ...], ("a", 3), "key 2 is 3; it must be text"),
        (dict[str, Positive], {"a": 0}, "key a is 0; it must be above 0"),
        (Positive | dict[str, Positive], {"a": "x"}, "key a is 'x'; it must be a number"),
        (Rate, {"per_second": 0}, "key: per_second is 0; it must be above 0"),
        (list[Rate], [RATE, {"spread": 0}], "key 2: per_second is missing"),
        (str, ["x" * 100] * 100, "key is ['xxxxxxxxxxxx...xxxxxxxxxxxxx', "),
    ],
)
def test_a_message_says_which_part_does_not_fit(hint, value, message):
    with pytest.raises(ValueError, match="^key") as caught:
        fit("key", value, hint)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("hint", "value", "kept"),
    [
        (Count, 1, 1),
        (Count | None, None, None),
        (Count, np.int64(3), 3),
        (Positive, 3, 3.0),
        (Positive, np.float32(0.5), 0.5),
        (float, 10**400, math.inf),
        (bool | int | float, 3, 3),
        (tuple[float, ...], [1, 2.5], (1.0, 2.5)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Rate, {"per_second": 2}, Rate(2.0)),
        (typing.Any, "anything", "anything"),
    ],
)
def test_what_fits_is_kept_as_a_file_gives_it(hint, value, kept):
    fitted = fit("key", value, hint)
    assert (fitted, type(fitted)) == (kept, type(kept))


def test_a_path_is_text(tmp_path):
    assert paceline.DataSpec(path=tmp_path / "own.npz").path == str(tmp_path / "own.npz")


def test_what_does_not_fit_is_a_value_error_by_name():
    for wrong in (lambda: paceline.PartitionSpec(replicas=0), lambda: fit("key", "a", int)):
        with pytest.raises(ValueError, match="it must be") as caught:
            wrong()
        assert caught.type is ValueError


def test_fields_of_dataclasses_are_checked_and_kept_alike():
    policy = allocation.MedAllocation(budget=3)
    assert (policy.budget, type(policy.budget)) == (3.0, float)
    check_fields(policy)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: allocation.SyncAllocation(min_shards=5, max_shards=4), "max_shards is 4, below min_shards, 5"),
        (
            lambda: msgspec.structs.replace(TERMS, deadline_seconds=math.nan),
            "deadline_seconds is nan; it must be above",
        ),
        (lambda: msgspec.structs.replace(TERMS, overtime=101.0), "overtime is 101.0; allowed: 0 to 100"),
        (lambda: ForeignUsage(cpu_ratio=-0.1), "cpu_ratio is -0.1; allowed: 0 to 1"),
        (lambda: Rate(math.inf), "per_second is inf; it must be above 0"),
        (lambda: Profile(train=RATE, down=RATE, up=RATE, latency_seconds=-1.0), "latency_seconds is -1.0; it must be"),
        (lambda: paceline.PointsSpec(reduction="SVD"), "reduction 'SVD' is unknown; did you mean 'svd'"),
        (lambda: paceline.PointsSpec(division="kmeans"), "division 'kmeans' is unknown; did you mean 'k-means'"),
        (lambda: paceline.ViewSpec(kind="blurr"), "view 'blurr' is unknown; did you mean 'blur'"),
        (lambda: Auditor(model=None, rate=1.1, chance=None), "model is None; it must be a LocalModel"),
    ],
)
def test_what_is_made_in_python_is_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Every field of every spec: what a file refuses, Python refuses in the same words.

POLICIES = {kind: name for name, kind in allocation.POLICIES.members.items()}
AGGREGATIONS = {kind: name for name, kind in aggregation.AGGREGATIONS.members.items()}
PLUGINS = {*POLICIES, *AGGREGATIONS}
OTHERS = (Cell, GraphSpec)
LEAST = {  # what some specs cannot be made without
    paceline.Job: {"deadline_seconds": 1.0},
    paceline.ModelSpec: {"name": "two-nn"},
    paceline.FedProxAggregation: {"mu": 1.0},
    paceline.DeviceState: {"name": "idle", "probability": 1.0},
    paceline.VirtualDevice: {"name": "a", "samples_per_second": 1.0},
    paceline.LocalDevice: {"name": "a"},
    paceline.TestbedDevice: {"name": "a"},
}
WRONG = {int: ["3", 1.5, True], float: ["3", False], str: [3, True], bool: [1, "yes"], type(None): []}


def specs():
    """The specs and plug-ins that the package offers."""
    exported = [getattr(paceline, name) for name in paceline.__all__]
    found = [one for one in exported if isinstance(one, type) and (issubclass(one, msgspec.Struct) or one in PLUGINS)]
    return [*found, *OTHERS]


def wrong_values(hint):
    """Values, of types that a file can hold, that an annotation refuses."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bounds = [meta for meta in arguments[1:] if isinstance(meta, Meta)]
        kind = arguments[0]
        outside = [bound - 1 for meta in bounds for bound in (meta.ge, meta.gt) if bound is not None]
        outside += [bound * 2 for meta in bounds for bound in (meta.le, meta.lt) if bound is not None and bound > 0]
        return [*wrong_values(kind), *map(kind, outside)]
    if origin is Literal:
        return ["no such choice", 99, str(arguments[0]).upper() + "?"]
    if len(arguments) > 1 and type(None) in arguments:
        return [wrong for one in arguments for wrong in wrong_values(one) if wrong is not None]
    if origin in (tuple, list):
        return [3, "text", [[]]]
    if origin is dict or not isinstance(hint, type):
        return []
    return WRONG.get(hint, [3])


def cases():
    for kind in specs():
        is_struct = issubclass(kind, msgspec.Struct)
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = msgspec.structs.fields(kind) if is_struct else dataclasses.fields(kind)
        tables = kind.tables if issubclass(kind, JobSpec) else ()
        for field in fields:
            key = field.encode_name if is_struct else field.name
            if field.name not in (*tables, getattr(kind, "nested", "")):
                for wrong in wrong_values(hints[field.name]):
                    yield pytest.param(kind, field.name, key, wrong, id=f"{kind.__name__}-{key}-{wrong!r:.30}")


def made_from_a_file(kind, table):
    """Make a spec as a file does; returns what its message begins with."""
    if issubclass(kind, JobSpec):
        return f"file: [{kind.table}]: ", lambda: parse_job({kind.table: table}, "file")
    if kind in POLICIES:
        name = POLICIES[kind]
        return f"{name}: ", lambda: allocation.from_config({"policy": name, **table})
    if kind in AGGREGATIONS:
        name = AGGREGATIONS[kind]
        return f"{name}: ", lambda: aggregation.from_config({"method": name, **table})
    return "file: ", lambda: convert(table, kind, "file")


@pytest.mark.parametrize(("kind", "name", "key", "wrong"), list(cases()))
def test_python_refuses_what_a_file_refuses_in_the_same_words(kind, name, key, wrong):
    least = LEAST.get(kind, {})
    with pytest.raises(ValueError, match=f"^{key} .*is ") as in_python:
        kind(**{**least, name: wrong})
    prefix, make = made_from_a_file(kind, {**least, key: wrong})
    with pytest.raises(ConfigError) as in_file:
        make()
    assert str(in_file.value) == f"{prefix}{in_python.value}"
    assert "\n" not in str(in_python.value)


def test_all_kinds_of_specs_are_compared():
    compared = {case.values[0] for case in cases()}
    assert {paceline.Job, paceline.Pool, paceline.GossipJob, paceline.SplitJob, PowerModel, Cell} <= compared
    assert set(specs()) - compared <= {paceline.DabAllocation, paceline.AllDataAllocation}  # these have no fields


SPECS = [kind for kind in specs() if issubclass(kind, msgspec.Struct) and kind is not GraphSpec]


@pytest.mark.parametrize("kind", SPECS)
def test_an_unknown_keyword_is_answered_with_those_that_there_are(kind):
    first = kind.__struct_fields__[0]
    with pytest.raises(TypeError, match=rf"^{kind.__name__}: unknown key '{first}_'; did you mean '.*'\? Allowed: "):
        kind(**LEAST.get(kind, {}), **{f"{first}_": 1})


def test_a_missing_keyword_is_named_as_in_a_file():
    with pytest.raises(TypeError, match=r"^VirtualDevice: name is missing$"):
        paceline.VirtualDevice()


def test_a_table_becomes_a_struct_or_dataclass():
    assert build(allocation.EqualAllocation, {"asynchronous": True}) == allocation.EqualAllocation(asynchronous=True)
    with pytest.raises(ValueError, match="unknown key 'asynchron'; did you mean 'asynchronous'"):
        build(allocation.EqualAllocation, {"asynchron": True})
