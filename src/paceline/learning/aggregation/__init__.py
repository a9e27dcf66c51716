"""Aggregation: how the updates of a round become the next parameters. One file per method."""

from paceline.learning.aggregation.base import Aggregated, Aggregation, Collector, Start, Update, WeightKind, weight_of
from paceline.learning.aggregation.fedadam import FedAdamAggregation
from paceline.learning.aggregation.fedavg import FedAvgAggregation
from paceline.learning.aggregation.fedavgm import FedAvgMAggregation
from paceline.learning.aggregation.fednova import FedNovaAggregation
from paceline.learning.aggregation.fedprox import FedProxAggregation
from paceline.learning.aggregation.fedyogi import FedYogiAggregation
from paceline.learning.aggregation.influence import Contribution, LimitedCollector
from paceline.learning.aggregation.keeping import KeepingAggregation, RobustAggregation
from paceline.learning.aggregation.krum import KrumAggregation
from paceline.learning.aggregation.means import MeanAggregation
from paceline.learning.aggregation.median import MedianAggregation
from paceline.learning.aggregation.methods import AGGREGATIONS, describe, from_config
from paceline.learning.aggregation.multi_krum import MultiKrumAggregation
from paceline.learning.aggregation.trimmed_mean import TrimmedMeanAggregation

__all__ = [
    "AGGREGATIONS",
    "Aggregated",
    "Aggregation",
    "Collector",
    "Contribution",
    "FedAdamAggregation",
    "FedAvgAggregation",
    "FedAvgMAggregation",
    "FedNovaAggregation",
    "FedProxAggregation",
    "FedYogiAggregation",
    "KeepingAggregation",
    "KrumAggregation",
    "LimitedCollector",
    "MeanAggregation",
    "MedianAggregation",
    "MultiKrumAggregation",
    "RobustAggregation",
    "Start",
    "TrimmedMeanAggregation",
    "Update",
    "WeightKind",
    "describe",
    "from_config",
    "weight_of",
]
