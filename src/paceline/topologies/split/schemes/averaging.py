"""A model for each source, and some layers that all have in common: averaged after each epoch (generalised FL).

With all layers averaged and no proximal term, it is FedAvg; with one on what is averaged, FedProx.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import torch

from paceline.learning.averaging import State
from paceline.learning.divergence import are_finite, diverged
from paceline.learning.engines import Engine
from paceline.learning.local_model import LocalModel, layer_of
from paceline.learning.model_parts import make_chain, operations_of
from paceline.learning.optimizer_memory import load_memory, memory_of, split_off
from paceline.learning.scores import Scores
from paceline.learning.shards import minibatch_sizes
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Layout, Vectors
from paceline.topologies.split.messages import SplitTerms, SyncPoint, Tensors
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.samples import Samples
from paceline.topologies.split.schemes.base import Copies, SourceScheme, TrunkScheme, mean_of

_TESTED = "tested"  # the loss, and the metrics in the order of their names


class AveragingAtTrunk(TrunkScheme):
    """Averages layers; it has no model of its own."""

    takes_newcomers = True

    def __init__(self, prepared: PreparedSplit, sources: Sequence[str]) -> None:
        super().__init__()
        terms = prepared.terms(1, ())
        self._num_samples, self._num_test_samples = terms.num_samples, terms.num_test_samples
        model = LocalModel(terms.training, allowed=None)
        self._layout, self._metric_names = model.layout, model.metric_names
        self._shared_validator = UpdateValidator(_shared_layout(model, terms.layers).pack(model.state()))
        self._num_steps = len(minibatch_sizes(terms.num_samples, terms.training.batch_size))
        start = None if prepared.start is None else self._layout.pack(prepared.start)
        trained = dict(model.module.named_parameters())
        self._copies = Copies(trained, model.parameters(), {} if start is None else dict.fromkeys(sources, start))

    def unpack(self, epoch: int, point: SyncPoint, tensors: Tensors) -> Tensors:
        match point.phase:
            case "test":
                reason = _why_no_test(tensors, 1 + len(self._metric_names))
            case "average":
                reason = self._shared_validator.why_unusable(tensors)
            case _:
                reason = self._copies.why_none(tensors)
        if reason is not None:
            raise ValueError(f"{point.phase}: {reason}")
        return tensors

    async def process(self, epoch: int, point: SyncPoint, received: Mapping[str, Tensors]) -> Mapping[str, Tensors]:
        if point.phase == "test":
            for tensors in received.values():
                loss, *metrics = tensors[_TESTED].tolist()
                scores = Scores(loss, dict(zip(self._metric_names, metrics, strict=True)))
                self.totals.tested.append((scores, self._num_test_samples))
            return {}
        if point.phase == "backup":
            self._copies.update(received)
            return {}
        self.totals.num_steps += len(received) * self._num_steps
        self.totals.num_samples += len(received) * self._num_samples
        mean = mean_of(list(received.values()))
        return dict.fromkeys(received, mean)

    def remove(self, source: str) -> None:
        self._copies.remove(source)

    def parameters_for(self, source: str) -> Vectors:
        return self._copies.of(source)

    def memory(self) -> State:
        return self._copies.kept()

    def restore(self, state: State, memory: State) -> None:
        self._copies.restore(memory)

    def state(self) -> State:
        models = {source: self._layout.unpack(copy) for source, copy in self._copies.parameters().items()}
        return {f"sources.{source}.{name}": tensor for source, own in models.items() for name, tensor in own.items()}


class AveragingAtSource(SourceScheme):
    """A model that learns from a source's own samples and labels, and shares some layers with the others."""

    def __init__(
        self, terms: SplitTerms, name: str, samples: Samples, engine: Engine, allowed: Collection[str] | None
    ) -> None:
        self._terms = terms
        self._name = name
        self._samples = samples
        self._engine = engine
        self._operations = operations_of(make_chain(terms.training, allowed), terms.training)
        own = None if allowed is None else list(allowed)
        self._model = LocalModel(terms.training, own, accelerator=engine.accelerator)
        self._state = self._model.state()
        self._shared_layout = _shared_layout(self._model, terms.layers)
        self._optimizer = self._model.new_optimizer()

    def load(self, parameters: Vectors) -> None:
        vectors, memory = split_off(parameters)
        self._state.update({name: tensor.clone() for name, tensor in self._model.layout.unpack(vectors).items()})
        load_memory(self._optimizer, self._model.module, memory)

    async def compute(self, epoch: int, point: SyncPoint) -> Tensors:
        if point.phase == "backup" and epoch > self._terms.epochs:
            return self._model.layout.pack(self._state)
        if point.phase == "backup":
            return {**self._model.layout.pack(self._state), **memory_of(self._optimizer, self._model.module)}
        if point.phase == "test":
            return {_TESTED: torch.tensor(await self._test(), dtype=torch.float64)}
        await self._train(epoch)
        return self._shared_layout.pack(self._state)

    async def apply(self, epoch: int, point: SyncPoint, reply: Tensors) -> None:
        if point.phase == "average":
            self._state.update({name: tensor.clone() for name, tensor in self._shared_layout.unpack(reply).items()})

    async def _train(self, epoch: int) -> None:
        terms = self._terms
        seed = terms.training.seed * 1_000_003 + epoch
        minibatches = self._model.minibatches(
            self._state, [self._samples.train], seed, round=epoch, optimizer=self._optimizer
        )
        for size in minibatch_sizes(terms.num_samples, terms.training.batch_size):
            await self._engine.run(lambda: next(minibatches), self._operations.train * size)
        self._state = self._model.state()
        if not are_finite(self._state):
            raise diverged(f"epoch {epoch} on {self._name}", "its parameters hold NaN or infinity")

    async def _test(self) -> Sequence[float]:
        test = self._samples.test
        scores = await self._engine.run(
            lambda: self._model.evaluate(self._state, test), self._operations.forward * test.num_samples
        )
        return scores.loss, *(scores.metrics[name] for name in self._model.metric_names)


def _why_no_test(tensors: Tensors, count: int) -> str | None:
    """Return what is wrong with so many figures of a test, the loss first, or None."""
    figures = tensors.get(_TESTED)
    if tensors.keys() != {_TESTED} or figures is None or (figures.dtype, figures.shape) != (torch.float64, (count,)):
        return f"there must be {_TESTED} alone, of {count} numbers"
    loss = float(figures[0])
    return None if math.isfinite(loss) else f"the loss is {loss:g}"


def _shared_layout(model: LocalModel, layers: Sequence[str]) -> Layout:
    """Return the layout of what is averaged: all that travels, or that of some layers."""
    state = model.layout.unpack(model.parameters())
    return Layout({name: tensor for name, tensor in state.items() if not layers or layer_of(name) in layers})
