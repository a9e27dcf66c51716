"""Federated averaging."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.learning.aggregation.means import MeanAggregation


@dataclass(frozen=True, kw_only=True)
class FedAvgAggregation(MeanAggregation):
    """The weighted mean of the updates (McMahan et al., 2017)."""
