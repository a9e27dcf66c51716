"""Language models: the next token of each place in a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.tasks.base import Batch, Sums
from paceline.learning.tasks.supervised import Example, SupervisedTask, largest

if TYPE_CHECKING:
    from paceline.learning.tables import Table

PADDING = -100
"""Target of a place that does not count."""


class LanguageModel(SupervisedTask):
    """Samples are rows of tokens; models return a logit per token of the vocabulary for each place.

    In data of one column, each token is the target of the place before it. A second column has targets place by place.
    In a dict, as Hugging Face has it, targets are those of the same place, and are shifted here. The metrics are
    ``perplexity`` and ``accuracy``, over all places.
    """

    default_model = "lstm"
    losses_by_name = ("cross-entropy",)
    is_standardised = False
    ignored_class = PADDING
    needs_target = False

    @classmethod
    def count_outputs(cls, train: Table, test: Table, target: int) -> int:
        if len(train.columns[0].shape) != 1:
            raise ConfigError(f"samples have shape {train.columns[0].shape}; a language model takes rows of tokens")
        columns = cls.class_columns(target)
        return max(largest(table, column, PADDING) for table in (train, test) for column in columns) + 1

    @classmethod
    def class_columns(cls, target: int) -> tuple[int, ...]:
        return (0, target)

    def example(self, batch: Batch) -> Example:
        if isinstance(batch, Mapping):
            name = self._spec.task.target or "labels"
            inputs = {key: column for key, column in batch.items() if key != name}
            labels = batch[name] if name in batch else next(iter(batch.values()))
            return Example(inputs, nn.functional.pad(labels[:, 1:].long(), (0, 1), value=PADDING))
        if isinstance(batch, torch.Tensor) or len(batch) == 1:
            tokens = batch if isinstance(batch, torch.Tensor) else batch[0]
            return Example((tokens[:, :-1],), tokens[:, 1:])
        return super().example(batch)

    def _place_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of each place, and which of them count."""
        target = target.long()
        losses = nn.functional.cross_entropy(outputs.transpose(1, 2), target, ignore_index=PADDING, reduction="none")
        return losses, target != PADDING

    def sample_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        losses, counts = self._place_losses(outputs, target)
        return losses.sum(1) / counts.sum(1).clamp(min=1)

    def metrics(self, model: nn.Module, batch: Batch) -> Sums:
        example = self.example(batch)
        outputs = self.outputs(model, example)
        losses, counts = self._place_losses(outputs, example.target)
        num_right = ((outputs.argmax(2) == example.target) & counts).sum()
        return {"perplexity": (losses.double().sum(), counts.sum()), "accuracy": (num_right, counts.sum())}

    def summary(self, totals: Sums) -> dict[str, float]:
        means = super().summary(totals)
        return {**means, "perplexity": math.exp(min(means["perplexity"], 700.0))}

    def _output_shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(self.example(batch).target.shape[:2])
