"""What is learned: a model, its loss, and how good it is, in plain PyTorch."""

import torch
from torch import nn

from paceline import Standardise, Task


class Spirals(Task):
    """Tells to which spiral a point belongs."""

    def model(self) -> nn.Module:
        return nn.Sequential(
            Standardise(),  # fitted to the training data, and saved with the model
            nn.Linear(2, 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, 3),
        )

    def loss(self, model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        points, spirals = batch
        return nn.functional.cross_entropy(model(points), spirals)

    def metrics(self, model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> dict[str, tuple[float, float]]:
        points, spirals = batch
        num_right = (model(points).argmax(1) == spirals).sum().item()
        return {"accuracy": (num_right, len(spirals))}
