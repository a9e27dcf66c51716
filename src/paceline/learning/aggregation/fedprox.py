"""FedProx: the mean of updates that were held near their start."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.checks import Positive
from paceline.learning.aggregation.means import MeanAggregation


@dataclass(frozen=True, kw_only=True)
class FedProxAggregation(MeanAggregation):
    """The weighted mean of the updates; local training is held near the parameters it started from (Li et al., 2020).

    Learners add ``mu / 2`` times the squared distance from these to their loss.

    Attributes:
        mu: strength of that term.
    """

    mu: Positive

    @property
    def proximal_mu(self) -> float:
        return self.mu
