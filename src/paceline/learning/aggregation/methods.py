"""Aggregation methods by name, and their table in a job file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from paceline.checks import build
from paceline.errors import ConfigError
from paceline.learning.aggregation.base import Aggregation
from paceline.learning.aggregation.fedadam import FedAdamAggregation
from paceline.learning.aggregation.fedavg import FedAvgAggregation
from paceline.learning.aggregation.fedavgm import FedAvgMAggregation
from paceline.learning.aggregation.fednova import FedNovaAggregation
from paceline.learning.aggregation.fedprox import FedProxAggregation
from paceline.learning.aggregation.fedyogi import FedYogiAggregation
from paceline.learning.aggregation.krum import KrumAggregation
from paceline.learning.aggregation.median import MedianAggregation
from paceline.learning.aggregation.multi_krum import MultiKrumAggregation
from paceline.learning.aggregation.trimmed_mean import TrimmedMeanAggregation
from paceline.plugins import Family
from paceline.spelling import suggest

AGGREGATIONS: Family[type[Aggregation]] = Family(
    noun="aggregation",
    members={
        "fedavg": FedAvgAggregation,
        "fedprox": FedProxAggregation,
        "fednova": FedNovaAggregation,
        "fedavgm": FedAvgMAggregation,
        "fedadam": FedAdamAggregation,
        "fedyogi": FedYogiAggregation,
        "median": MedianAggregation,
        "trimmed-mean": TrimmedMeanAggregation,
        "krum": KrumAggregation,
        "multi-krum": MultiKrumAggregation,
    },
    group="paceline.aggregations",
)
"""Aggregation methods, by their name in job files."""


def from_config(table: Mapping[str, Any]) -> Aggregation:
    """Make the method of a table with its name, or import path, under ``method``, and its fields.

    Raises `ConfigError`. A user's own code is imported here, and nowhere else.
    """
    fields = dict(table)
    name = fields.pop("method", "fedavg")
    if not isinstance(name, str):
        raise ConfigError(f"method is {name!r}; {suggest(name, AGGREGATIONS.names())}")
    try:
        AGGREGATIONS.check(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    kind = AGGREGATIONS.find(name)
    if not (isinstance(kind, type) and issubclass(kind, Aggregation) and dataclasses.is_dataclass(kind)):
        raise ConfigError(
            f"aggregation {name!r} is no dataclass derived from paceline.learning.aggregation.Aggregation"
        )
    try:
        made: Aggregation = build(kind, fields)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    return made


def describe(method: Aggregation) -> dict[str, Any]:
    """Return the table of a method, for `from_config`; raises `ConfigError` for one that nothing can import."""
    return {"method": AGGREGATIONS.name_of(type(method)), **dataclasses.asdict(method)}
