"""Aggregation methods by name, and their table in a job file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from paceline.plugins import TableFamily

AGGREGATIONS: TableFamily[Aggregation] = TableFamily(
    noun="aggregation",
    key="method",
    base=Aggregation,
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
    """Make the method of a table with its name, or import path, under ``method``, and its fields; see `TableFamily`."""
    return AGGREGATIONS.make(table, default="fedavg")


def describe(method: Aggregation) -> dict[str, Any]:
    """Return the table of a method, for `from_config`; raises `ConfigError` for one that nothing can import."""
    return AGGREGATIONS.describe(method)
