"""Settings, trials and measures that several experiments of one paper share; imported as ``papers.fpl`` and so on."""

from paceline import FedAvgAggregation

AVERAGE = FedAvgAggregation(clip=0.0, max_weight=0.0)
"""The papers' aggregation: a mean of what came, without limits for what one update does."""
