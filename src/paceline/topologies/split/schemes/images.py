"""The images themselves travel: sources hand them over once, and the trunk trains one model on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
import torch

from paceline.learning.averaging import State
from paceline.learning.divergence import are_finite, diverged
from paceline.learning.engines import Engine
from paceline.learning.local_model import LocalModel
from paceline.learning.optimizer_memory import load_memory, memory_of
from paceline.learning.shards import Array, Shard, minibatch_sizes
from paceline.learning.vectors import Vectors
from paceline.topologies.reporting.formatting import format_names
from paceline.topologies.split.messages import SplitTerms, SyncPoint, Tensors
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.samples import Samples
from paceline.topologies.split.schedule import is_tested, num_parts_of, part
from paceline.topologies.split.schemes.base import SourceScheme, TrunkScheme


class ImagesAtTrunk(TrunkScheme):
    """A model that learns from all that sources hand over; the labels are the trunk's."""

    def __init__(self, prepared: PreparedSplit, engine: Engine) -> None:
        super().__init__()
        self._terms = terms = prepared.terms(1, ())
        self._train = prepared.dataset.train.take(slice(None))
        self._test = prepared.dataset.test.take(slice(None))
        self._engine = engine
        self._operations = prepared.operations
        self._model = LocalModel(terms.training, allowed=None, accelerator=engine.accelerator)
        self._state = self._model.state() if prepared.start is None else prepared.start
        self._optimizer = self._model.new_optimizer()
        self._handed: dict[str, dict[int, Array]] = {}
        self._num_train_parts = num_parts_of(terms.num_samples)

    def unpack(self, epoch: int, point: SyncPoint, tensors: Tensors) -> Array:
        is_train = point.number < self._num_train_parts
        data = (self._train if is_train else self._test).x
        number = point.number if is_train else point.number - self._num_train_parts
        like, x = torch.from_numpy(data[part(number)]), tensors.get("values", torch.empty(0))
        if x.dtype != like.dtype or x.shape != like.shape:
            raise ValueError(
                f"images are {x.dtype} of shape {tuple(x.shape)}, not {like.dtype} of shape {tuple(like.shape)}: "
                "sources see the same samples"
            )
        if not torch.isfinite(x).all():
            raise ValueError("images hold NaN or infinity")
        return x.numpy()

    async def process(self, epoch: int, point: SyncPoint, received: Mapping[str, Array]) -> Mapping[str, Tensors]:
        for source, x in received.items():
            self._handed.setdefault(source, {})[point.number] = x
        return {}

    async def finish(self, epoch: int) -> float | None:
        train, test = self._shards("train"), self._shards("test")
        seed = self._terms.training.seed * 1_000_003 + epoch
        minibatches = self._model.minibatches(self._state, train, seed, round=epoch, optimizer=self._optimizer)
        num_samples = sum(shard.num_samples for shard in train)
        for size in minibatch_sizes(num_samples, self._terms.training.batch_size):
            await self._engine.run(lambda: next(minibatches), self._operations.train * size)
            self.totals.num_steps += 1
            self.totals.num_samples += size
        self._state = self._model.state()
        if not are_finite(self._state):
            where = f"epoch {epoch}, with images of {format_names(self._handed)}"
            raise diverged(where, "parameters hold NaN or infinity")
        trained_at = asyncio.get_running_loop().time()
        for shard in test if is_tested(self._terms, epoch) else ():
            scores = await self._engine.run(
                lambda shard=shard: self._model.evaluate(self._state, shard),  # type: ignore[misc]
                self._operations.forward * shard.num_samples,
            )
            self.totals.tested.append((scores, shard.num_samples))
        return trained_at

    def _shards(self, name: str) -> list[Shard]:
        """Return what each source has handed over in full, with labels."""
        y = (self._train if name == "train" else self._test).y
        first = 0 if name == "train" else self._num_train_parts
        numbers = range(first, first + num_parts_of(len(y)))
        whole = [parts for parts in self._handed.values() if all(number in parts for number in numbers)]
        return [Shard(np.concatenate([parts[number] for number in numbers]), y) for parts in whole]

    def parameters_for(self, source: str) -> Vectors:
        return {}

    def state(self) -> State:
        return self._state

    def memory(self) -> State:
        return memory_of(self._optimizer, self._model.module)

    def restore(self, state: State, memory: State) -> None:
        self._model.load(state)
        self._state = self._model.state()
        load_memory(self._optimizer, self._model.module, memory)


class ImagesAtSource(SourceScheme):
    """Hands its images over, and learns nothing."""

    def __init__(self, terms: SplitTerms, samples: Samples) -> None:
        self._samples = samples
        self._num_train_parts = num_parts_of(terms.num_samples)

    def load(self, parameters: Vectors) -> None:
        return

    async def compute(self, epoch: int, point: SyncPoint) -> Tensors:
        is_train = point.number < self._num_train_parts
        number = point.number if is_train else point.number - self._num_train_parts
        x = (self._samples.train if is_train else self._samples.test).x[part(number)]
        return {"values": torch.from_numpy(np.ascontiguousarray(x))}
