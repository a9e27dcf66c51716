"""The models that a peer offers, epoch by epoch, and its copies of those of others; sent whole or as 8-bit changes.

With changes, both ends keep the same copy of the model offered, and add to it what is sent. What is left out stays in
the difference between model and copy, and is sent later (Koloskova et al., 2019, CHOCO-SGD).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

import torch

from paceline.errors import BadReply
from paceline.learning.compression import Compression
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.sessions import Changes

_KEPT_EPOCHS = 3  # a neighbour may be an epoch behind, and one more where exchange overlaps with training
_SLICE = 1 << 16  # values mixed at a time
_CHANGES = Compression(method="int8")


class _Snapshot(NamedTuple):
    model: Vectors
    change: Vectors


class Snapshots:
    """The models that a peer offers to others; the first one is sent whole.

    Attributes:
        epoch: epoch of the newest; 0 before the first.
    """

    def __init__(self, compression: Literal["none", "int8"]) -> None:
        self._compression = Compression(method=compression)
        self._kept: dict[int, _Snapshot] = {}
        self._changes = Changes()
        self._is_last = False
        self.epoch = 0

    def add(self, epoch: int, model: Vectors) -> Vectors:
        """Offer a model, which must not be changed any more; returns it as others see it."""
        change: Vectors = {}
        if not self._compression.is_lossless and epoch - 1 in self._kept:
            change, model = self._compression.encode(model, self._kept[epoch - 1].model)
        self._kept[epoch] = _Snapshot(model, change)
        for old in sorted(self._kept)[:-_KEPT_EPOCHS]:
            del self._kept[old]
        self.epoch = epoch
        self._changes.notify()
        return model

    def end(self) -> None:
        """Offer no further models; nobody should wait for one."""
        self._is_last = True
        self._changes.notify()

    async def reply(self, epoch: int, base: int, wait_seconds: float) -> ModelReply:
        """Send the model of an epoch; of the nearest later one, if that is not kept any more."""
        await self._changes.until(lambda: self._is_last or self.epoch >= max(epoch, 1), wait_seconds)
        if self.epoch < max(epoch, 1):
            return ModelReply(status="wait", epoch=self.epoch)
        number = min(kept for kept in self._kept if kept >= epoch)
        snapshot = self._kept[number]
        if snapshot.change and base == number - 1:
            return ModelReply(status="ready", epoch=number, parameters=snapshot.change, base=base)
        return ModelReply(status="ready", epoch=number, parameters=snapshot.model)


class Copies:
    """Copies of the models of others, as they last sent them.

    Args:
        like: parameters of the model's shapes; anything else is refused, and what is far beyond them.
    """

    def __init__(self, like: Vectors) -> None:
        self._validator = UpdateValidator(like)
        self._seen: dict[str, tuple[int, Vectors]] = {}

    def epoch_of(self, learner: str) -> int:
        """Return the epoch of the copy that is kept of a peer's model; 0 if there is none."""
        return self._seen[learner][0] if learner in self._seen else 0

    def take(self, learner: str, reply: ModelReply) -> Vectors:
        """Return a peer's model, from what it sent; raises `BadReply` for what does not fit the model."""
        model = self._whole(learner, reply)
        reason = self._validator.why_unusable(model)
        if reason is not None:
            raise BadReply(f"{learner} sent parameters that do not fit the model: {reason}")
        self._seen[learner] = (reply.epoch, model)
        return model

    def keep_only(self, learners: Collection[str]) -> None:
        """Let go of all others."""
        self._seen = {learner: seen for learner, seen in self._seen.items() if learner in learners}

    def _whole(self, learner: str, reply: ModelReply) -> Vectors:
        if reply.base is None:
            return reply.parameters
        epoch, copy = self._seen.get(learner, (None, {}))
        if epoch != reply.base:
            raise BadReply(f"{learner} sent a change of a model of epoch {reply.base}, which is not known here")
        try:
            return _CHANGES.decode(reply.parameters, copy)
        except ValueError as error:
            raise BadReply(f"{learner} sent a change that does not fit the model: {error}") from error


def mixed(model: Vectors, own: Vectors, others: Mapping[str, Vectors], weights: Mapping[str, float]) -> Vectors:
    """Move a model towards those of others: by the weight of each times how far it is from the own one as sent.

    Whole numbers, such as counters of batches, stay as they are.
    """
    result = {kind: vector.clone() for kind, vector in model.items()}
    for kind, vector in result.items():
        if vector.is_floating_point():
            for name, other in others.items():
                for part, far, near in _slices(vector, other[kind], own[kind]):
                    part.add_(far - near, alpha=weights[name])
    return result


def distance(one: Vectors, other: Vectors) -> float:
    """Return the distance between two models, whole numbers left out."""
    squares = [
        float((part - far).square().sum())
        for kind, vector in one.items()
        if vector.is_floating_point()
        for part, far in _slices(vector, other[kind])
    ]
    return math.sqrt(math.fsum(squares))


def _slices(*vectors: torch.Tensor) -> Iterable[tuple[torch.Tensor, ...]]:
    """Cut vectors of the same length into slices: what is computed of one stays in the cache, twice as fast."""
    return zip(*(torch.split(vector, _SLICE) for vector in vectors), strict=True)
