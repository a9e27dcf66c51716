"""Classification: each sample is of one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.tasks.base import Batch, Sums
from paceline.learning.tasks.supervised import SupervisedTask, largest

if TYPE_CHECKING:
    from paceline.learning.tables import Table


class Classification(SupervisedTask):
    """Targets are class numbers from 0; models return a logit per class. The metric is accuracy.

    ``cross-entropy`` is the usual loss: of logits, down to 0. ``cross-entropy-of-softmax`` puts softmax outputs where
    logits belong, so that it is softmaxed twice. It cannot fall below −log(e / (e + classes − 1)), which is 1.461 for
    10 classes. Mays (2023) reports losses near 1.5 at 95 % accuracy, which only this loss gives: use it to reproduce
    those figures, and nowhere else.
    """

    losses_by_name = ("cross-entropy", "cross-entropy-of-softmax")

    @classmethod
    def count_outputs(cls, train: Table, test: Table, target: int) -> int:
        shape = train.columns[target].shape
        if shape != ():
            raise ConfigError(f"labels have shape {shape}; classification takes one class number for each sample")
        return max(largest(train, target), largest(test, target)) + 1

    @classmethod
    def class_columns(cls, target: int) -> tuple[int, ...]:
        return (target,)

    def sample_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = outputs if self.loss_name == "cross-entropy" else torch.softmax(outputs, dim=1)
        return nn.functional.cross_entropy(logits, target.long(), reduction="none")

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        example = self.example(batch)
        outputs = self.outputs(model, example)
        logits = outputs if self.loss_name == "cross-entropy" else torch.softmax(outputs, dim=1)
        return nn.functional.cross_entropy(logits, example.target.long())

    def metrics(self, model: nn.Module, batch: Batch) -> Sums:
        example = self.example(batch)
        num_right = (self.outputs(model, example).argmax(1) == example.target).sum()
        return {"accuracy": (num_right, len(example.target))}
