"""What the built-in tasks share: inputs, outputs and targets of a batch, and the model that the job names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning import models
from paceline.learning.preprocessing import Normalisation, Rescale, Standardise, WholeModel
from paceline.learning.tasks.base import Batch, Task

if TYPE_CHECKING:
    from paceline.learning.tables import Table
    from paceline.learning.training_spec import TrainingSpec

MAX_OUTPUTS = 1 << 20
_CHUNK_ROWS = 1 << 16


class Example(NamedTuple):
    """Inputs of a model, positional or by name, and what its outputs are compared with."""

    inputs: tuple[torch.Tensor, ...] | dict[str, torch.Tensor]
    target: torch.Tensor


class SupervisedTask(Task):
    """A built-in task: samples are inputs and, last, a target; in a dict, the target is named by the job, or last.

    Attributes:
        default_model: model of a job that names none.
        losses_by_name: allowed losses; the first is the default.
        is_standardised: whether inputs that are real numbers or bytes are standardised by the model's first layer.
        has_classes: whether targets are whole numbers, each below the number of outputs.
        least_class: least of them.
        needs_target: whether samples have a column with targets.
    """

    default_model: ClassVar[str] = "two-nn"
    losses_by_name: ClassVar[tuple[str, ...]]
    is_standardised: ClassVar[bool] = True
    has_classes: ClassVar[bool] = False
    least_class: ClassVar[int] = 0
    needs_target: ClassVar[bool] = True

    def __init__(self, spec: TrainingSpec, allowed: Collection[str] | None = ()) -> None:
        self.num_outputs = spec.num_outputs
        self.loss_name = spec.task.loss or self.losses_by_name[0]
        self._spec = spec
        self._allowed = allowed

    @classmethod
    @abstractmethod
    def count_outputs(cls, train: Table, test: Table) -> int:
        """Return the number of outputs that the data asks for; raises `ConfigError` for targets that do not fit."""

    @classmethod
    def target_normalisation(cls, train: Table) -> Normalisation | None:
        """Fit what makes targets floats of mean 0 and variance 1; None where they are no amounts."""
        return None

    @abstractmethod
    def sample_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample."""

    def model(self) -> nn.Module:
        spec = self._spec
        named = spec.model if spec.model.is_given else models.ModelSpec(name=self.default_model)
        model = models.build(named, spec.input_shape, spec.num_outputs, allowed=self._allowed)
        first = Standardise(spec.normalisation, spec.input_shape) if spec.normalisation is not None else None
        last = Rescale(spec.target_normalisation) if spec.target_normalisation is not None else None
        return model if first is None and last is None else WholeModel(model, first, last)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        return self.losses(model, batch).mean()

    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        example = self.example(batch)
        return self.sample_losses(self.outputs(model, example), example.target)

    def example(self, batch: Batch) -> Example:
        """Take a batch apart."""
        if isinstance(batch, Mapping):
            name = self._spec.task.target or list(batch)[-1]
            return Example({key: column for key, column in batch.items() if key != name}, batch[name])
        *inputs, target = batch
        return Example(tuple(inputs), target)

    def outputs(self, model: nn.Module, example: Example) -> torch.Tensor:
        """Call the model; of outputs by name, as those of Hugging Face, take the logits."""
        inputs = example.inputs
        found = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
        return logits_of(found)

    def check_outputs(self, model: nn.Module, batch: Batch) -> None:
        """Raise `ConfigError` if a model does not give one value per output for each sample."""
        shape = tuple(self.outputs(model, self.example(batch)).shape)
        expected = (*self._output_shape(batch), self.num_outputs)
        if shape != expected:
            raise ConfigError(f"it gives outputs of shape {shape} for {expected[0]} samples, not {expected}")

    def _output_shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(self.example(batch).target.shape[:1])


def logits_of(outputs: Any) -> torch.Tensor:
    """Return the outputs that a loss compares: those named ``logits``, or the first, where there are several."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        found = outputs["logits"] if "logits" in outputs else next(iter(outputs.values()))
    else:
        found = getattr(outputs, "logits", None)
        found = outputs[0] if found is None else found
    tensor: torch.Tensor = found
    return tensor


def largest(table: Table, column: int = -1, least: int = 0) -> int:
    """Return the largest whole number in a column; raises `ConfigError` for other values, and for smaller ones."""
    described = table.columns[column]
    if np.dtype(described.dtype).kind not in "iub":
        raise ConfigError(f"column {described.name!r} is {described.dtype}; classes must be whole numbers from 0")
    lowest, highest = 0, 0
    for start in range(0, len(table), _CHUNK_ROWS):
        values = table.take(slice(start, start + _CHUNK_ROWS))[column]
        if values.size:
            lowest, highest = min(lowest, int(values.min())), max(highest, int(values.max()))
    if lowest < least or highest >= MAX_OUTPUTS:
        wrong = lowest if lowest < least else highest
        raise ConfigError(f"column {described.name!r} has the value {wrong}; allowed: {least} to {MAX_OUTPUTS - 1}")
    return highest
