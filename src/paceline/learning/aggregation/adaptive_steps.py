"""Adaptive optimizers at the orchestrator: what FedAdam and FedYogi share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch

from paceline.checks import Positive, RatioBelowOne
from paceline.learning.aggregation.server_steps import ServerStepAggregation
from paceline.learning.averaging import State


@dataclass(frozen=True, kw_only=True)
class AdaptiveStepAggregation(ServerStepAggregation):
    """Adaptive step of Reddi et al. (2021, Algorithm 2): m ← β₁ m + (1 − β₁) Δ, then a step of lr · m / (√v + τ).

    How v follows Δ² is what the methods differ in. As in the paper, v starts at τ², and there is no bias correction.

    Attributes:
        lr: learning rate of the orchestrator's optimizer, about how far a parameter moves in a round.
        beta1: how slowly the mean of changes moves.
        beta2: how slowly the mean of their squares moves.
        tau: smallest scale of changes that it adapts to.
    """

    lr: Positive = 0.01
    beta1: RatioBelowOne = 0.9
    beta2: RatioBelowOne = 0.99
    tau: Positive = 1e-3

    def initial(self, change: torch.Tensor) -> State:
        return {"mean": torch.zeros_like(change), "square": torch.full_like(change, self.tau**2)}

    def move(self, change: torch.Tensor, own: State) -> tuple[torch.Tensor, State]:
        mean = self.beta1 * own["mean"] + (1 - self.beta1) * change
        square = self.next_square(own["square"], change.square())
        return mean / (square.sqrt() + self.tau), {"mean": mean, "square": square}

    @abstractmethod
    def next_square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        """Return v, given its last value and Δ²."""
