"""FedAvgM: the mean change, with momentum."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from paceline.checks import Positive, RatioBelowOne
from paceline.learning.aggregation.server_steps import ServerStepAggregation
from paceline.learning.averaging import State


@dataclass(frozen=True, kw_only=True)
class FedAvgMAggregation(ServerStepAggregation):
    """Momentum at the orchestrator (Hsu et al., 2019): m ← momentum · m + Δ, then a step of lr · m.

    Attributes:
        lr: learning rate of the orchestrator's optimizer.
        momentum: part of the last step that is repeated; at 0, and with lr 1, it is FedAvg.
    """

    lr: Positive = 1.0
    momentum: RatioBelowOne = 0.9

    def initial(self, change: torch.Tensor) -> State:
        return {"momentum": torch.zeros_like(change)}

    def move(self, change: torch.Tensor, own: State) -> tuple[torch.Tensor, State]:
        moved = self.momentum * own["momentum"] + change
        return moved, {"momentum": moved}
