"""Every number of a submitted job is bounded: one line says which key it is, what its value is, and what is allowed."""

import math
import typing

import msgspec
import pytest

from paceline.checks import MOST
from paceline.learning import aggregation
from paceline.topologies.job_tables import table_fields
from paceline.topologies.parallel.admission import admit
from paceline.topologies.parallel.jobs import Job, Pool

ABSURD = [math.nan, math.inf, -math.inf, -1, -1e300, 1e300, 2**63, -(2**63)]
OPTIONS = {"SGD": ("lr", "momentum", "dampening", "weight_decay"), "Adam": ("lr", "eps", "weight_decay")}
NEGATIVE = {("SGD", "dampening")}  # torch takes it


def has_number(hint):
    if hint in (int, float):
        return True
    return typing.get_origin(hint) is not dict and any(map(has_number, typing.get_args(hint)))


def numbers_of(kind):
    return [field.encode_name for field in msgspec.structs.fields(kind) if has_number(field.type)]


def numeric_fields():
    """List all numbers in the tables of a job: the table, what else is in it, and the key."""
    yield from (("job", {}, key) for key in numbers_of(Job) if key not in Job.tables)
    for table in ("task", "model", "data", "partition", "privacy"):
        yield from ((table, {}, key) for key in numbers_of(type(getattr(Job(deadline_seconds=1.0), table))))
    for name, options in OPTIONS.items():
        yield from (("optimizer", {"name": name}, key) for key in options)
    for name in aggregation.AGGREGATIONS.names():
        method = aggregation.AGGREGATIONS.find(name)
        hints = typing.get_type_hints(method, include_extras=True)
        fields = [key for key in hints if key in method.__dataclass_fields__ and has_number(hints[key])]
        needed = {"mu": 0.1} if name == "fedprox" else {}
        yield from (("aggregation", {"method": name, **needed}, key) for key in fields)


FIELDS = list(numeric_fields())


def tables_with(table, others, key, value):
    tables = {"job": {"name": "it", "deadline_seconds": 5.0}, "data": {"name": "digits", "shard_size": 64}}
    tables[table] = {**tables.get(table, {}), **others, key: value}
    return tables


def test_all_tables_of_a_job_are_gone_through():
    found = {(table, key) for table, _, key in FIELDS}
    assert {table for table, _ in found} | {"model", "allocation"} >= {"job", *table_fields(Job, Job.tables)}
    named = (
        "rounds",
        "deadline_seconds",
        "local_epochs",
        "batch_size",
        "seed",
        "min_learners",
        "audit_rate",
        "patience",
    )
    assert found >= {("data", "shard_size"), ("task", "outputs"), *(("job", key) for key in named)}
    assert len(FIELDS) > 50


@pytest.mark.parametrize(("table", "others", "key"), FIELDS, ids=lambda value: value if isinstance(value, str) else "")
def test_absurd_numbers_are_refused_in_one_line(table, others, key):
    for value in ABSURD:
        if value == -1 and (others.get("name"), key) in NEGATIVE:
            continue
        with pytest.raises(ValueError, match=key) as refused:
            admit(tables_with(table, others, key, value), Pool())
        message = str(refused.value)
        assert "\n" not in message
        assert len(message) < 400
        assert str(value) in message or f"{value:g}" in message, message
        assert "allowed" in message or "must be" in message or "Invalid" in message, message


@pytest.mark.parametrize(("table", "others", "key"), FIELDS, ids=lambda value: value if isinstance(value, str) else "")
def test_zero_and_what_is_barely_too_much_are_taken_or_refused_in_one_line(table, others, key):
    for value in (0, 0.0, MOST, float(MOST), 10 * MOST):
        try:
            Job(name="it", **{"deadline_seconds": 5.0, **tables_for(table, others, key, value)})
        except ValueError as error:
            assert key in str(error) or table == "partition"  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert value <= MOST or key == "seed"


def tables_for(table, others, key, value):
    return {key: value} if table == "job" else {table: {**others, key: value}}


@pytest.mark.parametrize("key", ["name", "target", "watch"])
def test_long_texts_are_refused(key):
    with pytest.raises(ValueError, match=f"{key} is 'aaa.*; it has 100000 characters; allowed: at most 200"):
        admit(tables_with("job", {}, key, "a" * 100_000), Pool())


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"task": {"outputs": 1 << 20}}, "the model has [0-9]+ bytes; this pool allows 2000000"),
        (
            {"job": {"batch_size": 1 << 20}, "model": {"name": "three-nn"}},
            "a training step would take about [0-9]+ bytes of a device's memory; this pool allows 20000000: use",
        ),
    ],
    ids=["model", "step"],
)
def test_jobs_that_would_exhaust_a_device_are_refused_before_anything_is_built(tables, message, monkeypatch):
    def build(*arguments, **options):
        raise AssertionError("a model is built")

    monkeypatch.setattr("paceline.learning.starts.LocalModel", build)
    whole = tables_with("job", {}, "rounds", 3)
    whole = {name: {**whole.get(name, {}), **tables.get(name, {})} for name in {**whole, **tables}}
    with pytest.raises(ValueError, match=message):
        admit(whole, Pool(max_model_bytes=2_000_000, max_step_bytes=20_000_000))
