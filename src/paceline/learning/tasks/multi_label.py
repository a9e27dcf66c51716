"""Multi-label classification: each sample has any number of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.tasks.base import Batch, Sums
from paceline.learning.tasks.supervised import SupervisedTask, values_of

if TYPE_CHECKING:
    from paceline.learning.tables import Table


class MultiLabel(SupervisedTask):
    """Targets are rows of 0 and 1; models return a logit per label, and above 0 means yes.

    The metrics are F1 scores: ``micro_f1`` of all decisions together, ``macro_f1`` the mean over the labels that any
    sample has or is given.
    """

    losses_by_name = ("binary-cross-entropy",)

    @classmethod
    def count_outputs(cls, train: Table, test: Table, target: int) -> int:
        shape = train.columns[target].shape
        if len(shape) != 1:
            raise ConfigError(f"targets have shape {shape}; multi-label takes a row of 0 and 1 for each sample")
        for values in (values for table in (train, test) for values in values_of(table, target)):
            if not ((values >= 0) & (values <= 1)).all():  # NaN is refused, too
                raise ConfigError(f"targets go from {values.min()} to {values.max()}; multi-label takes 0 and 1")
        return shape[0]

    def sample_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        target = target.to(outputs.dtype)
        return nn.functional.binary_cross_entropy_with_logits(outputs, target, reduction="none").mean(1)

    def metrics(self, model: nn.Module, batch: Batch) -> Sums:
        example = self.example(batch)
        decided, target = self.outputs(model, example) > 0, example.target > 0
        agreed, marked = 2 * (decided & target).sum(0), decided.sum(0) + target.sum(0)
        return {"micro_f1": (agreed.sum(), marked.sum()), "macro_f1": (agreed, marked)}
