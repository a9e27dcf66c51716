"""Learners for benchmarks of audits: honest ones in other arithmetic than the auditor's, and cheats."""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.learning.audits import Claim
from paceline.learning.local_model import LocalModel
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.vectors import Vectors

OLD_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"}
"""Without the wide instructions, for each of the three libraries that compute."""
PARTS = (5, 25, 50, 75, 90, 95, 99)
"""Of the minibatches, in percent."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """What a learner is given; also what it did in the round before, and what others are given."""

    task: TrainingSpec
    claim: Claim
    start_before: Vectors
    other_shards: list[Shard]

    @property
    def num_minibatches(self) -> int:
        return self.claim.local_epochs * math.ceil(self.num_samples_per_pass / self.task.batch_size)

    @property
    def num_samples_per_pass(self) -> int:
        return sum(shard.num_samples for shard in self.claim.shards)


Learner = Callable[[Work], Vectors]
"""What a learner sends back."""


def train(
    model: LocalModel,
    claim: Claim,
    *,
    num_minibatches: int | None = None,
    arithmetic: contextlib.AbstractContextManager[Any] | None = None,
) -> Vectors:
    """What comes of the first so many minibatches of a work, or of all."""
    state = model.layout.unpack(claim.start)
    with arithmetic or contextlib.nullcontext():
        minibatches = model.minibatches(state, claim.shards, claim.seed, claim.local_epochs)
        for number, _ in enumerate(minibatches, 1):
            if number == num_minibatches:
                break
    return {kind: vector.to(claim.start[kind].dtype) for kind, vector in model.parameters().items()}


# Honest learners.


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Sums are cut into as many parts."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_onednn() -> Iterator[None]:
    """Convolutions by another library."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*TF32", category=UserWarning)  # of a switch that is not turned
        with torch.backends.mkldnn.flags(enabled=False):
            yield


class OtherOrder(TorchDispatchMode):
    """Products of matrices, and convolutions, add up in an order of their own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            *bias, left, right = args
            order = self._order(left.shape[1])
            args = (*bias, left[:, order], right[order])
        elif func is torch.ops.aten.convolution.default:
            x, weight, *others = args
            order = self._order(x.shape[1])
            args = (x[:, order], weight[:, order], *others)
        return func(*args, **(kwargs or {}))

    def _order(self, length: int) -> torch.Tensor:
        return torch.randperm(length, generator=torch.Generator().manual_seed(1))


class FewerDigits(TorchDispatchMode):
    """Products of numbers of so few binary digits after the point, as tensor cores form them; sums in float32."""

    def __init__(self, num_digits: int) -> None:
        super().__init__()
        self._num_dropped = torch.finfo(torch.float32).bits - 9 - num_digits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        products = (aten.mm, aten.addmm, aten.convolution, aten.convolution_backward)
        if func.overloadpacket in products:
            args = tuple(self._rounded(argument) for argument in args)
        return func(*args, **(kwargs or {}))

    def _rounded(self, argument: Any) -> Any:
        if not isinstance(argument, torch.Tensor) or argument.dim() < 2:
            return argument
        half, unit = 1 << (self._num_dropped - 1), 1 << self._num_dropped
        bits = argument.contiguous().view(torch.int32)
        return ((bits + half) & -unit).view(torch.float32)


def in_arithmetic(arithmetic: Callable[[], contextlib.AbstractContextManager[Any]]) -> Learner:
    """Does all the work, in this arithmetic."""
    return lambda work: train(LocalModel(work.task), work.claim, arithmetic=arithmetic())


def in_float64(work: Work) -> Vectors:
    """Rounds once, at the end."""
    local = LocalModel(work.task)
    local.module.double()
    return train(local, work.claim)


def in_halves(work: Work) -> Vectors:
    """Computes half a minibatch at a time."""
    local = LocalModel(work.task)
    whole = local.module.forward
    local.module.forward = lambda x: torch.cat([whole(half) for half in x.chunk(2)])  # type: ignore[method-assign]
    return train(local, work.claim)


@contextlib.contextmanager
def old_processor() -> Iterator[Learner]:
    """A learner in a process whose libraries were told that they are on one."""
    before = dict(os.environ)
    os.environ.update(OLD_PROCESSOR)
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _exit_with_parent) as executor:
            executor.submit(os.getpid).result()  # it has its environment now
            os.environ.clear()
            os.environ.update(before)
            yield functools.partial(_train_in, executor)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _exit_with_parent() -> None:
    """End this process when the one that started it ends, however it ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _train_in(executor: Executor, work: Work) -> Vectors:
    claim = work.claim._replace(start=_arrays(work.claim.start), claimed={})
    return _tensors(executor.submit(_train_arrays, work.task, claim).result())


def _train_arrays(task: TrainingSpec, claim: Claim) -> dict[str, Any]:
    torch.set_num_threads(1)
    assert torch.backends.cpu.get_cpu_capability() == "DEFAULT"
    return _arrays(train(LocalModel(task), claim._replace(start=_tensors(claim.start))))


def _arrays(vectors: Vectors) -> dict[str, Any]:
    return {kind: vector.numpy() for kind, vector in vectors.items()}


def _tensors(arrays: Mapping[str, Any]) -> Vectors:
    return {kind: torch.from_numpy(array) for kind, array in arrays.items()}


# Cheats.


@functools.lru_cache(maxsize=1)
def _stops(work: Work) -> dict[int, Vectors]:
    """The parameters after those minibatches that some cheat stops at."""
    local, claim, num_minibatches = LocalModel(work.task), work.claim, work.num_minibatches
    wanted = {_at(work, percent) for percent in (*PARTS, 80)}
    wanted |= {num_minibatches - 1, num_minibatches - num_minibatches // claim.local_epochs}
    state, found = local.layout.unpack(claim.start), {}
    for number, _ in enumerate(local.minibatches(state, claim.shards, claim.seed, claim.local_epochs), 1):
        if number in wanted:
            found[number] = local.parameters()
    return found


def _at(work: Work, percent: int) -> int:
    return max(1, work.num_minibatches * percent // 100)


def part(work: Work, percent: int) -> Vectors:
    """Stops early."""
    return _stops(work)[_at(work, percent)]


def all_but_one(work: Work) -> Vectors:
    """Stops one minibatch early."""
    return _stops(work)[work.num_minibatches - 1]


def one_local_epoch_less(work: Work) -> Vectors:
    """Does one pass too few."""
    return _stops(work)[work.num_minibatches - work.num_minibatches // work.claim.local_epochs]


def extrapolated(work: Work) -> Vectors:
    """Guesses the last tenth from the tenth before."""
    earlier, later = part(work, 80), part(work, 90)
    return {kind: 2 * later[kind] - earlier[kind] for kind in later}


def noise(work: Work) -> Vectors:
    """Does nothing, and adds noise as large as the difference that the round before made."""
    claim, generator = work.claim, torch.Generator().manual_seed(work.claim.seed)
    made = {}
    for kind, start in claim.start.items():
        random = torch.randn(start.shape, generator=generator)
        made[kind] = start + random * (torch.dist(start, work.start_before[kind]) / random.norm())
    return made


def replayed(work: Work) -> Vectors:
    """Adds the difference that the round before made."""
    return {kind: 2 * start - work.start_before[kind] for kind, start in work.claim.start.items()}


def on_other_shards(work: Work) -> Vectors:
    """Trains what others were given."""
    return train(LocalModel(work.task), work.claim._replace(shards=work.other_shards))


def with_larger_steps(work: Work, percent: int) -> Vectors:
    """Does part of the minibatches, and makes up for it by the learning rate."""
    optimizer = work.task.optimizer
    options = {**optimizer.options, "lr": float(optimizer.options["lr"]) * 100 / percent}  # type: ignore[arg-type]
    task = msgspec.structs.replace(work.task, optimizer=OptimizerSpec(name=optimizer.name, options=options))
    return train(LocalModel(task), work.claim, num_minibatches=_at(work, percent))


def on_half_minibatches(work: Work) -> Vectors:
    """Leaves out half the samples of each minibatch."""
    local = LocalModel(work.task)
    whole = local.task.loss
    local.task.loss = lambda model, batch: whole(model, [column[::2] for column in batch])  # type: ignore[method-assign]
    return train(local, work.claim)


def with_frozen_layer(work: Work) -> Vectors:
    """Saves the way back to the first layer."""
    local = LocalModel(work.task)
    for parameter in list(local.module.parameters())[:2]:  # its weight and its bias
        parameter.requires_grad_(False)
    return train(local, work.claim)


HONEST: dict[str, Learner] = {
    "two threads": in_arithmetic(lambda: threads(2)),
    "other convolutions": in_arithmetic(no_onednn),
    "sums in other order": in_arithmetic(OtherOrder),
    "minibatch in halves": in_halves,
    "float64": in_float64,
}
"""All of the work in other arithmetic; `old_processor` is one more."""
FEWER_DIGITS: dict[str, Learner] = {
    "tf32 products": in_arithmetic(lambda: FewerDigits(10)),
    "bfloat16 products": in_arithmetic(lambda: FewerDigits(7)),
}
"""All of the work, in less precision than was asked for."""
CHEATS: dict[str, Learner] = {
    **{f"trains {percent} %": functools.partial(part, percent=percent) for percent in PARTS},
    "all but one minibatch": all_but_one,
    "one local epoch less": one_local_epoch_less,
    "90 %, rest guessed": extrapolated,
    "50 %, larger steps": functools.partial(with_larger_steps, percent=50),
    "90 %, larger steps": functools.partial(with_larger_steps, percent=90),
    "half of each minibatch": on_half_minibatches,
    "first layer frozen": with_frozen_layer,
    "other shards": on_other_shards,
    "last round again": replayed,
    "start and noise": noise,
}
"""Less than the work, or other work."""
