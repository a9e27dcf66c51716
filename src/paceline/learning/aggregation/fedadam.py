"""FedAdam: Adam at the orchestrator."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from paceline.learning.aggregation.adaptive_steps import AdaptiveStepAggregation


@dataclass(frozen=True, kw_only=True)
class FedAdamAggregation(AdaptiveStepAggregation):
    """Adam at the orchestrator (Reddi et al., 2021): v ← β₂ v + (1 − β₂) Δ²."""

    def next_square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        return self.beta2 * square + (1 - self.beta2) * latest
