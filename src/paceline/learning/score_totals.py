"""Sums of losses and metrics over the batches of test data."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from paceline.learning.accelerators import on_cpu
from paceline.learning.scores import Scores
from paceline.learning.tasks import Batch, Task
from paceline.learning.tasks.base import num_rows


class ScoreTotals:
    """Sums over the batches of test data."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._loss = 0.0
        self.num_samples = 0
        self._sums: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def add(self, model: nn.Module, batch: Batch) -> None:
        """Add a batch."""
        once, count = _Once(model), num_rows(batch)
        loss = float(self._task.loss(once, batch))  # type: ignore[arg-type]
        self.add_sums(loss * count, count, self._task.metrics(once, batch))  # type: ignore[arg-type]

    def add_sums(self, loss: float, num_samples: int, sums: Any) -> None:
        """Add what was summed up elsewhere: the sum of losses of so many samples, and sums and counts by metric."""
        self._loss += loss
        self.num_samples += num_samples
        for name, pair in sums.items():
            total, count = (torch.as_tensor(on_cpu(value), dtype=torch.float64) for value in pair)
            before = self._sums.get(name)
            self._sums[name] = (total, count) if before is None else (before[0] + total, before[1] + count)

    @property
    def scores(self) -> Scores:
        """The figures over all batches."""
        return Scores(self._loss / self.num_samples, dict(self._task.summary(self._sums)) if self._sums else {})


class _Once:
    """A model that is not run again on what it was just run on: loss and metrics call it on the same inputs."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._inputs: tuple[Any, ...] | None = None
        self._outputs: Any = None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        given = (*inputs, *named.items())
        if self._inputs is None or not _are_same(self._inputs, given):
            self._inputs, self._outputs = given, self._model(*inputs, **named)
        return self._outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _are_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether two calls have the same inputs, in the same memory; named ones are pairs."""
    flat = [
        [part for item in given for part in (item if isinstance(item, tuple) else (item,))] for given in (one, other)
    ]
    return len(flat[0]) == len(flat[1]) and all(_is_same(*pair) for pair in zip(*flat, strict=True))


def _is_same(one: Any, other: Any) -> bool:
    if one is other or not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return one is other
    # Views of the same part of a tensor: it is held, so nothing else can have its memory.
    kinds = [(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) for tensor in (one, other)]
    return kinds[0] == kinds[1] and one.numel() > 0
