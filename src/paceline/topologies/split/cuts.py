"""Where to cut a model: what each cut costs sources, links and trunk, as measured, and which is the fastest.

A minibatch takes a source i the seconds f_i forward and b_i backward, its values u_i up and d_i down, and the trunk t.
From one answer of the trunk to the next there is a whole round trip, t + max_i(d_i + b_i + f_i + u_i), in which as many
minibatches are under way as the depth allows. Nobody does two things at once, so that a step takes

    max( (t + max_i(f_i + u_i + d_i + b_i)) / depth,  t,  max_i(f_i + b_i),  max_i(u_i),  max_i(d_i) ).

An epoch is not worth the same with every cut: the fewer layers a branch has of its own, the less it can adapt to what
its source sees, and the more epochs it takes. How many is not known beforehand. Each layer fewer counts as half as many
epochs again, which is about what experiments/fpl-cut found with LEAF's network.
"""

from __future__ import annotations

import asyncio
import functools
import math
import statistics
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import torch

from paceline.errors import ConfigError
from paceline.learning.chain import Chain
from paceline.learning.engines import Engine
from paceline.learning.local_model import as_batch
from paceline.learning.model_parts import Branch, Head, make_chain, make_head
from paceline.learning.shards import minibatch_sizes
from paceline.topologies.split.messages import Costs, CutCost, SplitTerms
from paceline.topologies.split.prepared import PreparedSplit

EPOCHS_PER_LAYER = 1.5
"""Factor on the number of epochs for each layer fewer that learns in a branch."""

_REPEATS = 3  # after a warm-up; the median counts


class Chosen(NamedTuple):
    """The cut, and the expected seconds of an epoch with each that was weighed."""

    cut: str
    expected_seconds: dict[str, float]


async def choose_cut(prepared: PreparedSplit, sources: Sequence[str], costs: Sequence[Costs], engine: Engine) -> Chosen:
    """Choose the cut that is expected to learn fastest, by what sources measured and the trunk measures now."""
    if not costs:
        raise ConfigError("no source has measured what a cut would cost it; name a cut")
    job, num_samples = prepared.job, len(prepared.dataset.train)
    num_steps = len(minibatch_sizes(num_samples, job.batch_size))
    expected = {}
    for cut in prepared.cuts:
        num_bytes = job.batch_size * math.prod(prepared.shapes[cut]) * job.bits / 8
        trunk_seconds = await _time_head(prepared, cut, sources, engine)
        expected[cut] = num_steps * step_seconds(cut, costs, trunk_seconds, num_bytes, job.depth)
    return Chosen(fastest(expected, prepared.num_layers), expected)


def fastest(expected_seconds: Mapping[str, float], num_layers: Mapping[str, int]) -> str:
    """Return the cut that is expected to learn fastest.

    Args:
        expected_seconds: expected seconds of an epoch, by cut.
        num_layers: layers of a branch that learn, by cut.
    """
    return min(expected_seconds, key=lambda cut: expected_seconds[cut] * EPOCHS_PER_LAYER ** -num_layers[cut])


def step_seconds(cut: str, costs: Sequence[Costs], trunk_seconds: float, num_bytes: float, depth: int) -> float:
    """Estimate how long a step takes, by the formula of this module.

    Args:
        num_bytes: bytes that a source sends, and receives, in a step.
    """
    works, ups, downs = [], [], []
    for cost in costs:
        own = cost.cuts[cut]
        works.append(own.forward_seconds + own.backward_seconds)
        ups.append(num_bytes / cost.up_bytes_per_second + cost.latency_seconds / 2)
        downs.append(num_bytes / cost.down_bytes_per_second + cost.latency_seconds / 2)
    trip = trunk_seconds + max(sum(parts) for parts in zip(works, ups, downs, strict=True))
    return max(trip / depth, trunk_seconds, max(works), max(ups), max(downs))


async def measure_cuts(terms: SplitTerms, engine: Engine, allowed: Collection[str] | None) -> dict[str, CutCost]:
    """Measure what each cut would cost this source."""
    chain = make_chain(terms.training, allowed)
    return {cut: await _time_branch(terms, chain, cut, engine) for cut in terms.cuts}


async def _time_branch(terms: SplitTerms, chain: Chain, cut: str, engine: Engine) -> CutCost:
    """Run the subset benchmark of a branch, on a minibatch of zeros."""
    branch = Branch(terms.training, chain.before(cut), chain.shapes[cut], accelerator=engine.accelerator)
    x, _ = as_batch(terms.training.zeros(terms.training.batch_size), terms.training)
    gradient = torch.zeros(terms.training.batch_size, *chain.shapes[cut])
    operations = branch.operations

    async def forward() -> None:
        await engine.rehearse(lambda: branch.forward(0, x), operations.forward * len(x))

    async def backward() -> None:
        await engine.rehearse(lambda: branch.backward(0, gradient), operations.backward * len(x))

    forwards, backwards = [], []
    for _ in range(1 + _REPEATS):
        forwards.append(await _timed(forward))
        backwards.append(await _timed(backward))
    return CutCost(forward_seconds=statistics.median(forwards[1:]), backward_seconds=statistics.median(backwards[1:]))


async def _time_head(prepared: PreparedSplit, cut: str, sources: Sequence[str], engine: Engine) -> float:
    """Measure how long a step takes the trunk, by a few of them on zeros."""
    make = functools.partial(make_head, prepared.training, prepared.chain(), cut, sources, prepared.job.merge)
    head = await engine.run(functools.partial(make, engine.accelerator), 0)
    size, shape = prepared.job.batch_size, prepared.shapes[cut]
    inputs = {source: torch.zeros(size, *shape) for source in sources}
    _, labels = as_batch(prepared.training.zeros(size), prepared.training)
    operations = head.operations(shape, sources).train * size
    step = functools.partial(_step, head, inputs, labels, engine, operations)
    return statistics.median([await _timed(step) for _ in range(1 + _REPEATS)][1:])


async def _step(
    head: Head, inputs: dict[str, torch.Tensor], labels: torch.Tensor, engine: Engine, operations: float
) -> None:
    await engine.rehearse(lambda: head.step(inputs, labels), operations)


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    await work()
    return loop.time() - start
