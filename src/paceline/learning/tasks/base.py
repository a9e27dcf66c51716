"""The contract of a task: a model, its loss, and how good it is, in plain PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import nn

Batch: TypeAlias = Any
"""Some samples together: a tensor, or a tuple or dict of tensors, as the data has them, one row per sample."""

Sums: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Sum and count of each metric: numbers, or tensors with one value per class or output."""


class Task(ABC):
    """What is learned. Derive from it and pass the class to a job, as ``task=Sentiment`` or by its import path.

    A device makes one of its own, without arguments or with the options of the job, and calls its methods from one
    thread. The same arguments must give the same result; models may draw at random while they train, as dropout does.
    """

    @abstractmethod
    def model(self) -> nn.Module:
        """Make the model with its initial parameters; torch's seed is set before. It takes inputs as the data has them.

        A `paceline.Standardise` in it is fitted to the first column of the training data.
        """

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the loss to be minimised: a scalar, the mean over the batch."""

    def metrics(self, model: nn.Module, batch: Batch) -> Sums:
        """Return what else is measured on test data, as sum and count of each metric: ``{"mae": (12.5, 32)}``.

        They are added up over all batches. Calling the model on what `loss` called it on costs nothing.
        """
        return {}

    def summary(self, totals: Sums) -> dict[str, float]:
        """Make figures of the sums and counts over all batches: each is sum / count, averaged over classes."""
        return {name: mean_ratio(*pair) for name, pair in totals.items()}

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer | None:
        """Make the optimizer; None for the one that the job names."""
        return None

    def schedule(self, round: int, rounds: int) -> float:
        """Return what learning rates are multiplied by in a round (or epoch) of so many, counted from 1."""
        return 1.0

    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the loss of each sample; only jobs that rank samples need it."""
        return torch.stack([self.loss(model, part_of(batch, row)) for row in range(num_rows(batch))])


def num_rows(batch: Batch) -> int:
    """Count the samples of a batch."""
    return len(columns_of(batch)[-1])  # the first may be inputs of several sources, by name


def columns_of(batch: Batch) -> list[torch.Tensor]:
    """Return the tensors of a batch."""
    if isinstance(batch, Mapping):
        return list(batch.values())
    return list(batch) if isinstance(batch, tuple | list) else [batch]


def part_of(batch: Batch, row: int) -> Batch:
    """Return a batch of one sample."""
    rows = slice(row, row + 1)
    if isinstance(batch, Mapping):
        return {name: column[rows] for name, column in batch.items()}
    return tuple(column[rows] for column in batch) if isinstance(batch, tuple | list) else batch[rows]


def mean_ratio(total: Any, count: Any) -> float:
    """Divide, value by value, and average over those with a count above 0; 0 if there are none."""
    total, count = torch.as_tensor(total, dtype=torch.float64), torch.as_tensor(count, dtype=torch.float64)
    ratios = total[count > 0] / count[count > 0]
    return float(ratios.mean()) if ratios.numel() else 0.0
