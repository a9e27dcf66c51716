"""A model that trains: passes over shards in minibatches, as an iterator that can be stopped after any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from paceline.errors import ConfigError, in_one_line
from paceline.learning import models
from paceline.learning.accelerators import CPU, Accelerator, TrainingSteps
from paceline.learning.averaging import State
from paceline.learning.datasets import Normalisation
from paceline.learning.shards import Array, Shard, minibatch_sizes
from paceline.learning.tasks import Task
from paceline.learning.vectors import Layout, Vectors, copy_of, load_into

_CHUNK_SAMPLES = 2048  # normalised at a time: enough to be fast, and little memory
_LOSS_SAMPLES = 256  # at a time where only losses are computed, which small devices do
_MAX_LOCAL_EPOCHS = 1 << 16  # far beyond any job


class LocalModel:
    """A device's copy of the model.

    Args:
        allowed: import paths of models that may be loaded; None for any. See `models.build`.
        accelerator: what it trains on.

    Attributes:
        layout: positions of the parameters in vectors.
    """

    def __init__(self, task: Task, allowed: Sequence[str] | None = (), *, accelerator: Accelerator = CPU) -> None:
        accelerator.check(task.precision)
        torch.manual_seed(task.seed)  # the initial parameters follow from the seed
        self.task = task
        self.accelerator = accelerator
        model = models.build(task.model, task.input_shape, task.num_classes, allowed=allowed)
        self._model = accelerator.place(model)  # drawn on the CPU, so that all devices start alike
        self._loss = models.loss_function(task.model)
        self._losses = models.loss_function(task.model, is_mean=False)
        self.layout = Layout(self._model.state_dict())
        if task.model.import_path is not None:
            self._try_out(task.model.import_path)

    @torch.inference_mode()
    def _try_out(self, import_path: str) -> None:
        """Raise `ConfigError` if a user's own model does not take the data, or does not return logits."""
        if not self._trained_parameters():
            raise ConfigError(f"model {import_path!r} has no parameters that can be trained: give it some, unfrozen")
        expected = (2, self.task.num_classes)
        self._model.eval()
        try:
            shape = tuple(self._model(self.accelerator.move(torch.zeros(2, *self.task.input_shape))).shape)
        except Exception as error:
            given = f"samples of shape {self.task.input_shape}: {in_one_line(error, is_named=True)}"
            raise ConfigError(f"model {import_path!r} does not take {given}") from error
        if shape != expected:
            raise ConfigError(f"model {import_path!r} gives outputs of shape {shape} for two samples, not {expected}")

    def move_to(self, accelerator: Accelerator) -> None:
        """Move it to another accelerator, before it has an optimizer."""
        self.accelerator = accelerator
        self._model = accelerator.place(self._model)

    def state(self) -> State:
        """Copy the parameters and buffers."""
        return copy_of(self._model)

    def parameters(self) -> Vectors:
        """Copy the parameters and buffers into vectors."""
        return self.layout.pack(self._model.state_dict())

    def buffers(self) -> frozenset[str]:
        """Return the names of the buffers, which no gradient moves."""
        return frozenset(name for name, _ in self._model.named_buffers())

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Make the task's optimizer for this model's parameters."""
        return self.task.optimizer.make(self._trained_parameters())

    def minibatches(
        self,
        state: Mapping[str, torch.Tensor],
        shards: Sequence[Shard],
        seed: int,
        local_epochs: int = 1,
        *,
        is_shuffled: bool = True,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Iterator[int]:
        """Train from these parameters; yields the number of samples after each minibatch.

        `parameters` then returns what has been learned so far, also if the iterator is stopped early. Raises
        `ConfigError` at once for no shards or passes, or for parameters or shards that do not fit the task.

        Args:
            is_shuffled: whether each pass has an order of its own, drawn from `seed`; else it is that of the shards.
            optimizer: optimizer of an earlier training, to keep its momentum and the like; None for a new one.
        """
        if not shards:
            raise ConfigError("there are no shards to train on")
        if not 1 <= local_epochs <= _MAX_LOCAL_EPOCHS:
            raise ConfigError(f"local_epochs is {local_epochs}; allowed: 1 to {_MAX_LOCAL_EPOCHS}")
        for shard in shards:
            self._check(shard)
        load_into(self._model, state)
        batches = self._batches(shards, seed if is_shuffled else None, local_epochs)
        return self._train(batches, optimizer or self.new_optimizer())

    def _train(
        self, batches: Iterator[tuple[torch.Tensor, torch.Tensor]], optimizer: torch.optim.Optimizer
    ) -> Iterator[int]:
        self._model.train()
        steps = TrainingSteps(self.accelerator, self.task.precision, optimizer)
        held = [parameter for name, parameter in self._model.named_parameters() if self._is_held(name, parameter)]
        anchors = [parameter.detach().clone() for parameter in held]
        for batch in batches:
            x, y = self.accelerator.move(batch)
            with steps.autocast():
                loss = self._loss(self._model(x), y)
            steps.backward(loss)
            for parameter, anchor in zip(held, anchors, strict=True):
                if parameter.grad is not None:  # else the model does not use it, and it has not moved
                    parameter.grad.add_(parameter.detach() - anchor, alpha=self.task.proximal_mu)
            steps.step()
            yield len(y)

    def _is_held(self, name: str, parameter: torch.nn.Parameter) -> bool:
        layers = self.task.proximal_layers
        is_meant = not layers or name.partition(".")[0] in layers
        return bool(self.task.proximal_mu) and is_meant and parameter.requires_grad

    def _trained_parameters(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def _batches(
        self, shards: Sequence[Shard], seed: int | None, local_epochs: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        x = np.concatenate([shard.x for shard in shards])
        y = torch.from_numpy(np.concatenate([shard.y for shard in shards]).astype(np.int64))
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        for _ in range(local_epochs):
            order = torch.arange(len(y)) if generator is None else torch.randperm(len(y), generator=generator)
            yield from self._pass(x, y, order)

    def _pass(self, x: Array, y: torch.Tensor, order: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batches = torch.split(order, minibatch_sizes(len(order), self.task.batch_size))
        num_together = max(1, _CHUNK_SAMPLES // self.task.batch_size)
        for start in range(0, len(batches), num_together):
            together = batches[start : start + num_together]
            chosen, sizes = torch.cat(together), [len(batch) for batch in together]
            xs, ys = normalise(x[chosen.numpy()], self.task.normalisation), y[chosen]
            yield from zip(torch.split(xs, sizes), torch.split(ys, sizes), strict=True)

    @torch.inference_mode()
    def evaluate(self, state: Mapping[str, torch.Tensor], x: Array, y: Array) -> tuple[float, float]:
        """Return the mean loss and the accuracy of these parameters on test data."""
        load_into(self._model, state)
        loss, num_right = 0.0, 0
        for outputs, labels in self._outputs(x, y, _CHUNK_SAMPLES):
            loss += float(self._loss(outputs, labels)) * len(labels)
            num_right += int((outputs.argmax(1) == labels).sum())
        return loss / len(y), num_right / len(y)

    def losses(self, state: Mapping[str, torch.Tensor], shard: Shard) -> Iterator[Array]:
        """Yield the loss of each sample as float32, in the order of the shard, some at a time.

        Raises `ConfigError` at once for parameters or a shard that do not fit the task.
        """
        self._check(shard)
        load_into(self._model, state)
        outputs_and_labels = self._outputs(shard.x, shard.y, _LOSS_SAMPLES)
        return (self._losses(outputs, labels).cpu().numpy() for outputs, labels in outputs_and_labels)

    def _outputs(self, x: Array, y: Array, step: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the model's outputs and the labels, so many at a time."""
        self._model.eval()
        for start in range(0, len(y), step):
            with torch.inference_mode():  # not around the yield: it would last while others work
                inputs = normalise(x[start : start + step], self.task.normalisation)
                outputs = self._model(self.accelerator.move(inputs))
            yield outputs, self.accelerator.move(torch.from_numpy(y[start : start + step].astype(np.int64)))

    def _check(self, shard: Shard) -> None:
        x, y = shard
        shape, num_classes = self.task.input_shape, self.task.num_classes
        if x.dtype not in (np.uint8, np.float32) or x.shape[1:] != shape or y.dtype.kind not in "iu":
            raise ConfigError(
                f"a shard has samples of type {x.dtype} and shape {x.shape[1:]}, and labels of type {y.dtype}; "
                f"the task wants uint8 or float32 of shape {shape}, and whole numbers"
            )
        if y.shape != x.shape[:1] or not len(y):
            raise ConfigError(f"a shard has {len(x)} samples and labels of shape {y.shape}; it needs as many of each")
        if y.min() < 0 or y.max() >= num_classes:
            raise ConfigError(f"a shard has labels from {y.min()} to {y.max()}; allowed: 0 to {num_classes - 1}")


def normalise(x: Array, normalisation: Normalisation) -> torch.Tensor:
    """Convert stored samples to the floats a model takes."""
    channels = (-1, *[1] * (x.ndim - 2))
    scale = normalisation.scale / torch.tensor(normalisation.std).view(channels)
    shift = torch.tensor(normalisation.mean).view(channels) / torch.tensor(normalisation.std).view(channels)
    return torch.from_numpy(x).to(torch.float32, copy=True).mul_(scale).sub_(shift)
