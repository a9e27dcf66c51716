"""What the built-in tasks share: inputs, outputs and targets of a batch, and the model that the job names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning import models
from paceline.learning.preprocessing import Normalisation, Rescale, Standardise, WholeModel, logits_of
from paceline.learning.shards import Array
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
        ignored_class: class number of what does not count.
        needs_target: whether samples have a column with targets.
    """

    default_model: ClassVar[str] = "two-nn"
    losses_by_name: ClassVar[tuple[str, ...]]
    is_standardised: ClassVar[bool] = True
    ignored_class: ClassVar[int | None] = None
    needs_target: ClassVar[bool] = True

    def __init__(self, spec: TrainingSpec, allowed: Collection[str] | None = ()) -> None:
        self.num_outputs = spec.num_outputs
        self.loss_name = spec.task.loss or self.losses_by_name[0]
        self._spec = spec
        self._allowed = allowed

    @classmethod
    @abstractmethod
    def count_outputs(cls, train: Table, test: Table, target: int) -> int:
        """Return the number of outputs that the data asks for; raises `ConfigError` for targets that do not fit.

        Args:
            target: number of the column with the targets.
        """

    @classmethod
    def class_columns(cls, target: int) -> tuple[int, ...]:
        """Return the columns whose values are class numbers, each below the number of outputs."""
        return ()

    @classmethod
    def target_normalisation(cls, train: Table, target: int) -> Normalisation | None:
        """Fit what makes targets floats of mean 0 and variance 1; None where they are no amounts."""
        return None

    @abstractmethod
    def sample_losses(self, outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss of each sample."""

    def model(self) -> nn.Module:
        spec = self._spec
        is_whole = spec.normalisation is None and np.dtype(spec.columns[0].dtype).kind in "biu"
        models.check_inputs(spec.chosen_model, spec.columns[0], is_whole=is_whole)
        model = models.build(spec.chosen_model, spec.input_shape, spec.num_outputs, allowed=self._allowed)
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
        """Call the model, by the names of several inputs; of outputs by name, as Hugging Face has, take the logits."""
        inputs = example.inputs
        if isinstance(inputs, dict):
            found = model(**inputs) if len(inputs) > 1 else model(*inputs.values())
        else:
            found = model(*inputs)
        return logits_of(found)

    def check_outputs(self, model: nn.Module, batch: Batch) -> None:
        """Raise `ConfigError` if a model does not give one value per output for each sample."""
        shape = tuple(self.outputs(model, self.example(batch)).shape)
        expected = (*self._output_shape(batch), self.num_outputs)
        if shape != expected:
            raise ConfigError(f"it gives outputs of shape {shape} for {expected[0]} samples, not {expected}")

    def _output_shape(self, batch: Batch) -> tuple[int, ...]:
        return tuple(self.example(batch).target.shape[:1])


def largest(table: Table, column: int, ignored: int | None = None) -> int:
    """Return the largest class number in a column; raises `ConfigError` for values that are none."""
    described = table.columns[column]
    if np.dtype(described.dtype).kind not in "iub":
        raise ConfigError(f"column {described.name!r} is {described.dtype}; classes must be whole numbers from 0")
    ranges = [class_range(values, ignored) for values in values_of(table, column)]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    if low < 0 or high >= MAX_OUTPUTS:
        wrong = low if low < 0 else high
        raise ConfigError(f"column {described.name!r} has the value {wrong}; allowed: 0 to {MAX_OUTPUTS - 1}")
    return high


def values_of(table: Table, column: int) -> Iterator[Array]:
    """Yield a column, some samples at a time."""
    for start in range(0, len(table), _CHUNK_ROWS):
        yield table.take(slice(start, start + _CHUNK_ROWS))[column]


def class_range(values: Array, ignored: int | None) -> tuple[int, int]:
    """Return the least and the largest class number, but for those that are ignored; 0 and 0 if there are none."""
    if ignored is not None and values.min() == ignored:
        values = values[values != ignored]
    return (int(values.min()), int(values.max())) if values.size else (0, 0)
