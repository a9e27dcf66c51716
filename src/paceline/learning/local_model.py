"""A model that trains: passes over shards in minibatches, as an iterator that can be stopped after any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from paceline import plugins
from paceline.errors import ConfigError
from paceline.learning.accelerators import CPU, Accelerator, TrainingSteps
from paceline.learning.averaging import State
from paceline.learning.exchange import digest_of, exchanged_names
from paceline.learning.optimizers import set_learning_rates
from paceline.learning.preprocessing import Standardise, WholeModel, fitted_buffers
from paceline.learning.score_totals import ScoreTotals
from paceline.learning.scores import Scores
from paceline.learning.shards import Array, Shard, minibatch_sizes
from paceline.learning.tables import Table
from paceline.learning.tasks import Batch, SupervisedTask, Task
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import Layout, Vectors, copy_of, load_into

_CHUNK_SAMPLES = 2048  # gathered at a time: enough to be fast, and little memory
_LOSS_SAMPLES = 256  # at a time where only losses are computed, which small devices do
MAX_LOCAL_EPOCHS = 1 << 16  # far beyond any job


class LocalModel:
    """A device's copy of the model.

    Args:
        allowed: import paths that may be loaded; None for any. See `plugins.load_object`.
        accelerator: what it trains on.

    Attributes:
        task: what is learned.
        module: the model, whole: it takes samples as they are stored.
        layout: positions in vectors of what travels.
        kept_names: names of what training changes and does not travel.
        initial_kept: its untrained values.
        has_base: whether what does not travel is what the spec has a digest of, as it was made here.
    """

    def __init__(
        self, spec: TrainingSpec, allowed: Sequence[str] | None = (), *, accelerator: Accelerator = CPU
    ) -> None:
        accelerator.check(spec.precision)
        self.spec = spec
        self.accelerator = accelerator
        self.task = spec.make_task(allowed)
        self.module = accelerator.place(make_module(spec, self.task))  # drawn on the CPU: all devices start alike
        state = self.module.state_dict()
        exchanged = exchanged_names(self.module, spec.exchange)
        self.layout = Layout({name: state[name] for name in exchanged})
        self.kept_names = _changed_names(self.module, exchanged)
        self.initial_kept = self.kept()
        self.has_base = not spec.base or digest_of(self.base()) == spec.base
        self._transform = _load_transform(spec.transform, allowed)
        # Preprocessing does not learn: of many minibatches at once it takes less time.
        whole = self.module if isinstance(self.module, WholeModel) and self._transform is None else None
        self._preprocessing = None if whole is None else whole.preprocessing
        self._learned = self.module if whole is None else accelerator.place(whole.learned)
        self._metric_names: tuple[str, ...] | None = None
        if spec.import_paths or spec.normalisation is None:  # named models take what is standardised
            try_out(self.task, self.module, spec, accelerator)
        if self._transform is not None:
            batch = self._transform(accelerator.move(as_batch(spec.zeros(2), spec)))
            what = f"transform {spec.transform!r}"
            plugins.guarded(what, "training on what it made of two samples of zeros", self._loss_of, batch)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of what is measured besides the loss."""
        if self._metric_names is None:
            totals = ScoreTotals(self.task)
            self._add_scores(totals, self.accelerator.move(as_batch(self.spec.zeros(2), self.spec)))
            self._metric_names = tuple(totals.scores.metrics)
        return self._metric_names

    @torch.inference_mode()
    def _loss_of(self, batch: Batch) -> torch.Tensor:
        self.module.eval()
        return self.task.loss(self.module, batch)

    def move_to(self, accelerator: Accelerator) -> None:
        """Move it to another accelerator, before it has an optimizer."""
        self.accelerator = accelerator
        self.module = accelerator.place(self.module)
        if self._preprocessing is not None:
            self._learned = accelerator.place(self._learned)

    def state(self) -> State:
        """Copy the parameters and buffers, whether they travel or not."""
        return copy_of(self.module)

    def parameters(self) -> Vectors:
        """Copy what travels into vectors."""
        return self.layout.pack(self.module.state_dict())

    def kept(self) -> State:
        """Copy what training changed and does not travel."""
        state = self.module.state_dict()
        return {name: state[name].detach().to("cpu", copy=True) for name in self.kept_names}

    def base(self) -> State:
        """Copy what does not travel, without what is fitted: all that a device has to have besides."""
        state, left_out = self.module.state_dict(), self.layout.names | fitted_buffers(self.module)
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items() if name not in left_out}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set what travels, or all; what is left out stays. Raises `ConfigError` for what does not fit."""
        load_into(self.module, state, required=self.layout.names)

    def buffers(self) -> frozenset[str]:
        """Return the names of the buffers, which no gradient moves."""
        return frozenset(name for name, _ in self.module.named_buffers())

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Make the optimizer of the task, or else the job's, for this model's parameters."""
        own = plugins.guarded("the task", "optimizer()", self.task.optimizer, self.module)
        if own is None:
            return self.spec.optimizer.make(self._trained_parameters())
        if not isinstance(own, torch.optim.Optimizer):
            raise ConfigError(f"the task: optimizer() made no torch.optim.Optimizer but a {type(own).__name__}")
        return own

    def minibatches(
        self,
        state: Mapping[str, torch.Tensor],
        shards: Sequence[Shard],
        seed: int,
        local_epochs: int = 1,
        *,
        round: int = 1,
        is_shuffled: bool = True,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> Iterator[int]:
        """Train from these parameters; yields the number of samples after each minibatch.

        `parameters` then returns what has been learned so far, also if the iterator is stopped early. Raises
        `ConfigError` at once for no shards or passes, or for parameters or shards that do not fit the task.

        Args:
            round: number of the round or epoch, which learning rates may depend on.
            is_shuffled: whether each pass has an order of its own, drawn from `seed`; else it is that of the shards.
            optimizer: optimizer of an earlier training, to keep its momentum and the like; None for a new one.
        """
        if not shards:
            raise ConfigError("there are no shards to train on")
        if not 1 <= local_epochs <= MAX_LOCAL_EPOCHS:
            raise ConfigError(f"local_epochs is {local_epochs}; allowed: 1 to {MAX_LOCAL_EPOCHS}")
        for shard in shards:
            self.spec.check(shard)
        self.load(state)
        optimizer = optimizer or self.new_optimizer()
        set_learning_rates(optimizer, self.spec.rate_factor(self.task, round))
        return self._train(self._batches(shards, seed if is_shuffled else None, local_epochs), optimizer)

    def _train(self, batches: Iterator[tuple[Batch, int]], optimizer: torch.optim.Optimizer) -> Iterator[int]:
        self.module.train()
        held = self._held_parameters()
        anchors = [parameter.detach().clone() for parameter in held]
        steps = TrainingSteps(self.accelerator, self.spec.precision, optimizer)
        for batch, num_samples in batches:
            with steps.autocast():
                loss = self.task.loss(self._learned, batch)
            steps.backward(loss)
            for parameter, anchor in zip(held, anchors, strict=True):
                if parameter.grad is not None:  # else the model does not use it, and it has not moved
                    parameter.grad.add_(parameter.detach() - anchor, alpha=self.spec.proximal_mu)
            steps.step()
            yield num_samples

    def _held_parameters(self) -> list[nn.Parameter]:
        """Return what the proximal term holds back: of what is shared, what is trained."""
        if not self.spec.proximal_mu:
            return []
        layers, shared = self.spec.proximal_layers, self.layout.names
        return [
            parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name in shared and (not layers or layer_of(name) in layers)
        ]

    def _trained_parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def _batches(self, shards: Sequence[Shard], seed: int | None, local_epochs: int) -> Iterator[tuple[Batch, int]]:
        columns = [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*shards, strict=True)]
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        num_samples = len(columns[0])
        for _ in range(local_epochs):
            order = torch.arange(num_samples) if generator is None else torch.randperm(num_samples, generator=generator)
            yield from self._pass(columns, order)

    def _pass(self, columns: Sequence[Array], order: torch.Tensor) -> Iterator[tuple[Batch, int]]:
        batches = torch.split(order, minibatch_sizes(len(order), self.spec.batch_size))
        num_together = max(1, _CHUNK_SAMPLES // self.spec.batch_size)
        for start in range(0, len(batches), num_together):
            together = batches[start : start + num_together]
            chosen, sizes = torch.cat(together).numpy(), [len(batch) for batch in together]
            taken = [self.accelerator.move(torch.from_numpy(column[chosen])) for column in columns]
            if self._preprocessing is not None:
                taken[0] = self._preprocessing(taken[0])
            parts = [torch.split(tensor, sizes) for tensor in taken]
            for size, *tensors in zip(sizes, *parts, strict=True):
                batch = _structured(tensors, self.spec)
                yield batch if self._transform is None else self._transform(batch), size

    def evaluate(self, state: Mapping[str, torch.Tensor], table: Table | Shard) -> Scores:
        """Return the loss and the metrics of these parameters on test data."""
        self.load(state)
        totals = ScoreTotals(self.task)
        for batch in self._test_batches(table, _CHUNK_SAMPLES):
            self._add_scores(totals, batch)
        return totals.scores

    @torch.inference_mode()
    def _add_scores(self, totals: ScoreTotals, batch: Batch) -> None:
        self.module.eval()
        totals.add(self.module, batch)

    def losses(self, state: Mapping[str, torch.Tensor], shard: Shard) -> Iterator[Array]:
        """Yield the loss of each sample as float32, in the order of the shard, some at a time.

        Raises `ConfigError` at once for parameters or a shard that do not fit the task.
        """
        self.spec.check(shard)
        self.load(state)
        return map(self._losses, self._test_batches(shard, _LOSS_SAMPLES))

    @torch.inference_mode()
    def _losses(self, batch: Batch) -> Array:
        self.module.eval()
        losses: Array = self.task.losses(self.module, batch).float().cpu().numpy()
        return losses

    def _test_batches(self, table: Table | Shard, step: int) -> Iterator[Batch]:
        num_samples = table.num_samples if isinstance(table, Shard) else len(table)
        for start in range(0, num_samples, step):
            rows = slice(start, start + step)
            part = Shard(*(column[rows] for column in table)) if isinstance(table, Shard) else table.take(rows)
            yield self.accelerator.move(as_batch(part, self.spec))


def make_module(spec: TrainingSpec, task: Task) -> nn.Module:
    """Make a task's model, its initial parameters from the spec's seed; raises `ConfigError` if there is none."""
    torch.manual_seed(spec.seed)
    name = spec.task.import_path or spec.model.import_path or spec.model.name or spec.task.kind
    model = task.model() if spec.task.built_in else plugins.guarded(f"task {name!r}", "model()", task.model)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"task {name!r}: model() made no torch.nn.Module but a {type(model).__name__}")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(f"model {name!r} has no parameters that can be trained: give it some, unfrozen")
    if spec.normalisation is not None and spec.task.built_in is None:
        for module in model.modules():
            if isinstance(module, Standardise):
                module.fit(spec.normalisation, spec.input_shape)
    return model


def try_out(task: Task, module: nn.Module, spec: TrainingSpec, accelerator: Accelerator) -> None:
    """Raise `ConfigError` if code of the user's does not take the data, or returns no loss."""
    model = spec.chosen_model
    own = spec.task.import_path or spec.task.kind
    what = f"task {own!r}" if spec.task.built_in is None else f"model {model.import_path or model.name!r}"
    batch = accelerator.move(as_batch(spec.zeros(2), spec))
    module.eval()
    with torch.inference_mode():
        if isinstance(task, SupervisedTask):
            shapes = ", ".join(str(column.shape) for column in spec.columns[: max(1, len(spec.columns) - 1)])
            plugins.guarded(what, f"calling it with samples of shape {shapes}", task.check_outputs, module, batch)
            return
        loss = plugins.guarded(what, "loss() on two samples of zeros", task.loss, module, batch)
        if not isinstance(loss, torch.Tensor) or loss.shape != ():
            found = f"shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"type {type(loss).__name__}"
            raise ConfigError(f"{what}: loss() returned a value of {found}; it must be a scalar, the mean of the batch")
        plugins.guarded(what, "metrics() on two samples of zeros", ScoreTotals(task).add, module, batch)


def as_batch(shard: Shard, spec: TrainingSpec) -> Batch:
    """Make a batch of samples as they are stored."""
    return _structured([torch.from_numpy(np.require(column, requirements=["C", "W"])) for column in shard], spec)


def _structured(tensors: Sequence[torch.Tensor], spec: TrainingSpec) -> Batch:
    if spec.structure == "dict":
        return {column.name: tensor for column, tensor in zip(spec.columns, tensors, strict=True)}
    return tuple(tensors) if spec.structure == "tuple" else tensors[0]


def layer_of(name: str) -> str:
    """Return the layer that a parameter belongs to: the first part of its name within the model."""
    return name.removeprefix("model.").partition(".")[0]


def _changed_names(module: nn.Module, exchanged: Collection[str]) -> set[str]:
    """Return the names of what training changes besides what is exchanged: parameters that learn, and buffers."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    sent = {id(parameters[name]) for name in exchanged if name in parameters}  # perhaps under another name, too
    still = {name for name, parameter in parameters.items() if id(parameter) in sent or not parameter.requires_grad}
    return set(module.state_dict()) - still - set(exchanged) - fitted_buffers(module)


def _load_transform(path: str, allowed: Sequence[str] | None) -> Callable[[Batch], Batch] | None:
    if not path:
        return None
    found: Any = plugins.load_object(path, "transform", allowed)
    if not callable(found):
        raise ConfigError(f"transform {path!r} cannot be called")
    return lambda batch: plugins.guarded(f"transform {path!r}", "calling it", found, batch)
