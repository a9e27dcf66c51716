"""What split.py splits: models and where they are cut, samples drawn at random, and the parts that peers train.

All systems train the same parts in the same order on the same minibatches; what differs is what is between the parts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

import forks
import processes
from paceline.learning.junction import JunctionSpec
from paceline.learning.model_parts import Branch, make_chain, make_head, operations_of
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.quantisation import Bits
from paceline.learning.shards import minibatch_sizes
from paceline.learning.views import ViewSpec
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.prepared import PreparedSplit
from paceline.topologies.split.samples import Minibatches, as_tensor
from random_data import random_dataset, task_of
from steps import Mark, told

NUM_EPOCHS = 2
"""Of which the first is left out."""


@dataclass(frozen=True)
class Work:
    """A model, where it is cut, and the minibatches that it is trained on."""

    model: str
    cut: str
    junction: Literal["full", "low-rank"]
    side: int
    batch_size: int


WORKS = {
    "tiny": Work("two-nn", "5", "full", 8, 2),  # hardly any work: what is left is what steps cost by themselves
    "three-nn": Work("three-nn", "3", "full", 28, 32),
    "leaf-cnn": Work("leaf-cnn", "f2", "low-rank", 28, 32),
}


def prepare(work: str, num_sources: int, num_steps: int, *, depth: int = 1, bits: Bits = 32) -> PreparedSplit:
    """Prepare a job of two epochs of so many steps, which is tested on one sample after each and makes no copies."""
    what = WORKS[work]
    dataset = random_dataset(num_steps * what.batch_size, side=what.side, num_test_samples=1)
    job = SplitJob(
        cut=what.cut,
        epochs=NUM_EPOCHS,
        batch_size=what.batch_size,
        sources=num_sources,
        depth=depth,
        bits=bits,
        patience_seconds=60.0,
        backup_epochs=0,
        junction=JunctionSpec(form=what.junction),
        model=ModelSpec(name=what.model),
        optimizer=OptimizerSpec(options={"lr": 0.01}),
        view=(ViewSpec(),),
    )
    task = task_of(job, dataset)
    chain = make_chain(task)
    model_bytes = sum(parameter.nbytes for layer in chain.layers.values() for parameter in layer.parameters())
    return PreparedSplit(
        job=job,
        task=task,
        dataset=dataset,
        cuts=(what.cut,),
        num_layers={},  # the cut is known: none is to be chosen
        shapes=chain.shapes,
        model_bytes=model_bytes,
        operations=operations_of(chain, task),
        metric_names=("accuracy",),
    )


def run_all(take_part: Callable[[int, int, PreparedSplit], tuple[Mark, float]]) -> None:
    """Start trunk (number 0) and sources by the setup in the command line, wait for them, and print what they took.

    Args:
        take_part: does what a node of this number does, with the trunk's port; returns what the last epoch took, and
            the trunk's loss.
    """
    prepared = prepare(**json.loads(sys.argv[1]))
    numbers = range(prepared.job.sources + 1)
    port = processes.free_port()
    (trunk, loss), *sources = forks.gather(take_part, numbers, [port] * len(numbers), [prepared] * len(numbers))
    print(json.dumps(told(trunk, [mark for mark, _ in sources], loss)))


def num_steps(prepared: PreparedSplit) -> int:
    """Of an epoch."""
    return len(minibatch_sizes(len(prepared.dataset.train), prepared.job.batch_size))


def source_name(number: int) -> str:
    """Of a source, from 1: the weights that a junction begins with follow from it."""
    return f"source-{number}"


def tensor_bytes(work: str, bits: int = 32) -> int:
    """What a minibatch's values at the cut take, and their gradients as much again."""
    prepared = prepare(work, 1, 1)
    return 2 * WORKS[work].batch_size * int(np.prod(prepared.shapes[WORKS[work].cut])) * bits // 8


class SourcePart:
    """A branch with its samples."""

    def __init__(self, prepared: PreparedSplit) -> None:
        chain, cut = prepared.chain(), prepared.cuts[0]
        self._minibatches = Minibatches(prepared.terms(1, prepared.cuts))
        self._x = prepared.dataset.train.take(slice(None)).x
        self.branch = Branch(prepared.task, chain.before(cut), chain.shapes[cut])

    def forward(self, epoch: int, step: int) -> torch.Tensor:
        """What it makes of a minibatch."""
        return self.branch.forward(step, as_tensor(self._x[self._minibatches.samples(epoch, step)]))

    def backward(self, step: int, gradient: torch.Tensor) -> None:
        """Learn."""
        self.branch.backward(step, gradient)


class TrunkPart:
    """The head with the labels.

    Attributes:
        losses: of each step.
    """

    def __init__(self, prepared: PreparedSplit) -> None:
        chain = prepared.chain()
        names = [source_name(number) for number in range(1, prepared.job.sources + 1)]
        self._minibatches = Minibatches(prepared.terms(1, prepared.cuts))
        self._y = prepared.dataset.train.labels()
        self._head = make_head(prepared.task, chain, prepared.cuts[0], names, prepared.job.merge)
        self.losses: list[float] = []

    def step(self, epoch: int, step: int, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Learn from what sources made of a minibatch; returns the gradients of it."""
        loss, gradients = self._head.step(inputs, as_tensor(self._y[self._minibatches.samples(epoch, step)]))
        self.losses.append(loss)
        return gradients
