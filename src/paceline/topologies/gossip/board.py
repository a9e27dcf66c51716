"""What a peer shows of its model, epoch by epoch, and what it has seen of others; whole or as 8-bit changes.

With changes, both ends keep the same copy of the model shown, and add to it what is sent. What the steps of 8 bits
leave out stays in the difference between model and copy, and is sent later (Koloskova et al., 2019, CHOCO-SGD).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

import torch

from paceline.axon import loops
from paceline.errors import BadReply
from paceline.learning.averaging import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.messages import Shown

_KEPT_EPOCHS = 3  # a neighbour may be an epoch behind, and one more where exchange overlaps with training
_BLOCK = 1024  # values that share a scale
_LEVELS = 127
_SLICE = 1 << 16  # values mixed at a time


class _Page(NamedTuple):
    model: Vectors
    change: Vectors
    scales: Vectors


class Board:
    """The models that a peer shows; the first one is shown whole."""

    def __init__(self, compression: Literal["none", "int8"]) -> None:
        self._is_compressed = compression == "int8"
        self._pages: dict[int, _Page] = {}
        self._turned = asyncio.Event()
        self.epoch = 0

    def put(self, epoch: int, model: Vectors) -> Vectors:
        """Show a model, which must not be changed any more; returns it as others see it."""
        change: Vectors = {}
        scales: Vectors = {}
        if self._is_compressed and epoch - 1 in self._pages:
            model, change, scales = _step(self._pages[epoch - 1].model, model)
        self._pages[epoch] = _Page(model, change, scales)
        for old in sorted(self._pages)[:-_KEPT_EPOCHS]:
            del self._pages[old]
        self.epoch = epoch
        self._turned.set()
        self._turned = asyncio.Event()
        return model

    async def show(self, epoch: int, base: int, wait_seconds: float) -> Shown:
        """The model of an epoch; of the nearest later one, if that is not kept any more."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        while self.epoch < max(epoch, 1):
            left = until - loop.time()
            if left <= 0 or not await is_set(self._turned, left):
                return Shown(status="wait", epoch=self.epoch)
        number = min(kept for kept in self._pages if kept >= epoch)
        page = self._pages[number]
        if page.change and base == number - 1:
            return Shown(status="ready", epoch=number, parameters=page.change, scales=page.scales, base=base)
        return Shown(status="ready", epoch=number, parameters=page.model)


class Copies:
    """The models of others, as they were last shown.

    Args:
        like: parameters of the model's shapes; anything else is refused, and what is far beyond them.
    """

    def __init__(self, like: Vectors) -> None:
        self._validator = UpdateValidator(like)
        self._seen: dict[str, tuple[int, Vectors]] = {}

    def epoch_of(self, learner: str) -> int:
        """Of the copy that is kept of a peer's model; 0 if there is none."""
        return self._seen[learner][0] if learner in self._seen else 0

    def take(self, learner: str, shown: Shown) -> Vectors:
        """A peer's model, from what it showed; raises `BadReply` for what does not fit the model."""
        model = self._whole(learner, shown)
        reason = self._validator.why_unusable(model)
        if reason is not None:
            raise BadReply(f"{learner} showed parameters that do not fit the model: {reason}")
        self._seen[learner] = (shown.epoch, model)
        return model

    def keep_only(self, learners: Collection[str]) -> None:
        """Let go of all others."""
        self._seen = {learner: seen for learner, seen in self._seen.items() if learner in learners}

    def _whole(self, learner: str, shown: Shown) -> Vectors:
        if shown.base is None:
            return shown.parameters
        epoch, copy = self._seen.get(learner, (None, {}))
        fits = shown.parameters.keys() == copy.keys() and all(
            change.shape == copy[kind].shape and (change.dtype == torch.int8 or kind not in shown.scales)
            for kind, change in shown.parameters.items()
        )
        if epoch != shown.base or not fits:
            raise BadReply(f"{learner} showed a change of a model of epoch {shown.base}, which is not known here")
        return {kind: _added(copy[kind], change, shown.scales.get(kind)) for kind, change in shown.parameters.items()}


def _step(copy: Vectors, model: Vectors) -> tuple[Vectors, Vectors, Vectors]:
    """The copy moved towards the model by what 8 bits can tell, and what tells that."""
    changes: Vectors = {}
    scales: Vectors = {}
    for kind, vector in model.items():
        if vector.is_floating_point():
            changes[kind], scales[kind] = _quantised(vector - copy[kind])
        else:
            changes[kind] = vector
    moved = {kind: _added(copy[kind], change, scales.get(kind)) for kind, change in changes.items()}
    return moved, changes, scales


def _quantised(change: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = _blocks(change)
    scales = blocks.abs().amax(1) / _LEVELS
    steps = torch.where(scales[:, None] > 0, blocks / scales[:, None], 0.0).round_().to(torch.int8)
    return steps.reshape(-1)[: change.numel()], scales


def _added(copy: torch.Tensor, change: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
    if scales is None:
        return change  # whole numbers are sent as they are
    blocks = _blocks(change.to(copy.dtype))
    if scales.shape != blocks.shape[:1]:
        raise BadReply(f"a change has {len(scales)} scales, not {len(blocks)}")
    return copy + (blocks * scales.to(copy.dtype)[:, None]).reshape(-1)[: copy.numel()]


def _blocks(vector: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(vector, (0, -vector.numel() % _BLOCK)).view(-1, _BLOCK)


async def is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event for at most so long, and tell whether it has come."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        return await loops.settled(waiting, seconds)
    finally:
        waiting.cancel()


def mixed(model: Vectors, own: Vectors, others: Mapping[str, Vectors], weights: Mapping[str, float]) -> Vectors:
    """A model moved towards those of others: by the weight of each times how far it is from the own one as shown.

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
    """Between two models, whole numbers left out."""
    squares = [
        float((part - far).square().sum())
        for kind, vector in one.items()
        if vector.is_floating_point()
        for part, far in _slices(vector, other[kind])
    ]
    return math.sqrt(math.fsum(squares))


def _slices(*vectors: torch.Tensor) -> Iterable[tuple[torch.Tensor, ...]]:
    """Vectors of the same length, slice by slice: what is computed of one stays in the cache, twice as fast."""
    return zip(*(torch.split(vector, _SLICE) for vector in vectors), strict=True)
