"""Regression: each sample has one or several real numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.preprocessing import Normalisation
from paceline.learning.tasks.base import Batch, Sums
from paceline.learning.tasks.supervised import Example, SupervisedTask

if TYPE_CHECKING:
    from paceline.learning.tables import Table
    from paceline.learning.training_spec import TrainingSpec

_ROUNDING = 1e-12  # of sums of squares

_LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "mse": nn.functional.mse_loss,
    "mae": nn.functional.l1_loss,
    "huber": nn.functional.huber_loss,
}


class Regression(SupervisedTask):
    """Targets are numbers; the model's last layer puts them into their own units, so that it predicts them as they are.

    The loss is of standardised targets: a mean squared error of 1 is that of the mean. The metrics are ``mae``, the
    mean absolute error in the targets' units, and ``r2``, the part of their variance that is explained; it is 0 where
    they do not vary.
    """

    losses_by_name = tuple(_LOSSES)

    def __init__(self, spec: TrainingSpec, allowed: Collection[str] | None = ()) -> None:
        super().__init__(spec, allowed)
        how = spec.target_normalisation
        self._std = torch.ones(1) if how is None else torch.tensor(how.std) / how.scale

    @classmethod
    def count_outputs(cls, train: Table, test: Table, target: int) -> int:
        shape = train.columns[target].shape
        if len(shape) > 1:
            raise ConfigError(f"targets have shape {shape}; regression takes one number or a row of them per sample")
        return shape[0] if shape else 1

    @classmethod
    def target_normalisation(cls, train: Table, target: int) -> Normalisation | None:
        return Normalisation.of(train, target, takes_whole_numbers=True)

    def sample_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        spread = self._std.to(outputs.device)
        target = target.to(torch.float32).view_as(outputs)
        return _LOSSES[self.loss_name](outputs / spread, target / spread, reduction="none").mean(1)

    def metrics(self, model: nn.Module, batch: Batch) -> Sums:
        example = self.example(batch)
        outputs = self.outputs(model, example).double()
        target = example.target.double().view_as(outputs)
        errors, count = outputs - target, len(target)
        return {
            "mae": (errors.abs().sum(0), count),
            "squares": (errors.square().sum(0), count),
            "targets": (target.sum(0), count),
            "target_squares": (target.square().sum(0), count),
        }

    def summary(self, totals: Sums) -> dict[str, float]:
        errors, count = totals["squares"]
        mean = totals["targets"][0] / count
        squares = totals["target_squares"][0]
        around_mean = squares - count * mean**2
        explained = torch.where(around_mean > _ROUNDING * squares, 1 - errors / around_mean, 0.0)
        return {**super().summary({"mae": totals["mae"]}), "r2": float(explained.mean())}

    def outputs(self, model: nn.Module, example: Example) -> torch.Tensor:
        found = super().outputs(model, example)
        return found[:, None] if found.ndim == 1 else found
