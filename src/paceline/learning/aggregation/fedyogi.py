"""FedYogi: Yogi at the orchestrator."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from paceline.learning.aggregation.adaptive_steps import AdaptiveStepAggregation


@dataclass(frozen=True, kw_only=True)
class FedYogiAggregation(AdaptiveStepAggregation):
    """Yogi at the orchestrator (Reddi et al., 2021): v ← v − (1 − β₂) Δ² sign(v − Δ²), which changes v slowly."""

    def next_square(self, square: torch.Tensor, latest: torch.Tensor) -> torch.Tensor:
        return square - (1 - self.beta2) * latest * torch.sign(square - latest)
