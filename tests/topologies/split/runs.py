"""Small split runs on virtual time, and the same model trained in one process, for the tests here."""

import dataclasses
import functools

import numpy as np
import torch

from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import datasets
from paceline.learning.datasets import Dataset, DataSpec
from paceline.learning.model_parts import SplitModel, epoch_order, learned_by, make_chain, make_head
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import minibatch_sizes
from paceline.learning.vectors import copy_of
from paceline.learning.views import ViewSpec
from paceline.topologies.base import Environment
from paceline.topologies.split.events import JunctionChanged, SplitEnded, SplitEpochEnded
from paceline.topologies.split.jobs import SplitJob
from paceline.topologies.split.prepared import prepare_split
from paceline.topologies.split.samples import as_tensor, view_of
from paceline.topologies.split.topology import SplitPlan

CUT = "3"
"""A cut of two-nn: behind 50 values."""

WIDTH = 50
SGD = OptimizerSpec(name="SGD", options={"lr": 0.05, "momentum": 0.9})
ADAM = OptimizerSpec(name="Adam", options={"lr": 0.002})
VIEWS = tuple(ViewSpec(kind=kind) for kind in ("plain", "erase", "flip-horizontal"))


def small_job(**changes):
    """Three sources that see digits, each in a way of its own."""
    rules = {
        "cut": CUT,
        "epochs": 3,
        "sources": 3,
        "patience_seconds": 1.0,
        "model": ModelSpec(name="two-nn"),
        "optimizer": ADAM,
        "data": DataSpec(name="digits"),
        "view": VIEWS,
    }
    return SplitJob(**{**rules, **changes})


@functools.cache
def digits():
    return datasets.load(DataSpec(name="digits"))


def small_split(num_samples=320, num_test_samples=300, **changes):
    """A job for the first of the digits, prepared: ten steps an epoch, and two parts to test, unless changed."""
    data = digits()
    few = Dataset("digits", first_of(data.train, num_samples), first_of(data.test, num_test_samples))
    return dataclasses.replace(prepare_split(small_job(**changes)), dataset=few)


def first_of(table, count):
    return table.reordered(np.arange(count))


def device(name, samples_per_second=1000.0, **changes):
    rules = {"down_mbit": 20, "up_mbit": 20, "latency_ms": 2}
    return VirtualDevice(name=name, samples_per_second=samples_per_second, **{**rules, **changes})


def fleet(**of_last):
    """Three sources that join in this order; the last of them may be special."""
    return [device("a", latency_ms=2), device("b", latency_ms=2.2), device("c", **{"latency_ms": 2.4, **of_last})]


class WatchedPlan(SplitPlan):
    """A plan whose trunk can be looked at while it runs."""

    def __init__(self, prepared, trunks):
        super().__init__(prepared)
        self.trunks = trunks

    def host(self, env):
        self.trunks.append(super().host(env))
        return self.trunks[-1]


@dataclasses.dataclass(frozen=True)
class Played:
    """A run that is over.

    Attributes:
        states: all that the trunk had learned after each epoch.
        changed: the same at the moment when a junction had changed, by epoch.
    """

    state: dict
    events: list
    states: dict
    changed: dict

    def of(self, kind, learner=None):
        return [
            event for event in self.events if isinstance(event, kind) and (learner is None or event.learner == learner)
        ]

    @property
    def epochs(self):
        return self.of(SplitEpochEnded)

    @property
    def ended(self):
        (ended,) = self.of(SplitEnded)
        return ended


def play(prepared, devices):
    """Run a job on virtual devices."""
    events, trunks, states, changed = [], [], {}, {}

    def emit(event):
        events.append(event)
        if isinstance(event, SplitEpochEnded):
            states[event.epoch] = trunks[0].current_state()
        if isinstance(event, JunctionChanged):
            changed[event.epoch] = trunks[0].current_state()

    outcome = VirtualFleet(devices).run(WatchedPlan(prepared, trunks), Environment(emit=emit))
    return Played(outcome.state, events, states, changed)


def in_one_process(prepared, sources, epochs=None, cut=CUT):
    """The state of the same model, all of whose parts one optimizer of one process has trained."""
    task, data = prepared.training, prepared.dataset
    chain, labels = make_chain(task, None), data.train.labels()
    branches = {source: make_chain(task, None).before(cut) for source in sources}
    model = SplitModel(branches, make_head(task, chain, cut, sources, prepared.job.merge)).train()
    optimizer = task.optimizer.make(model.parameters())
    terms = {source: prepared.terms(number, (cut,)) for number, source in enumerate(sources, 1)}
    views = {source: view_of(data, terms[source], number).train.x for number, source in enumerate(sources, 1)}
    learning_rate = task.optimizer.options["lr"]
    for epoch in range(1, (epochs or prepared.job.epochs) + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * task.optimizer.factor(epoch, prepared.job.epochs)
        order = epoch_order(len(labels), prepared.job.seed, epoch)
        for batch in torch.split(order, minibatch_sizes(len(order), task.batch_size)):
            chosen = batch.numpy()
            logits = model({source: as_tensor(x[chosen]) for source, x in views.items()})
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, as_tensor(labels[chosen]).long()).backward()
            optimizer.step()
    own = {
        f"branches.{source}.{name}": tensor
        for source in sources
        for name, tensor in learned_by(branches[source]).items()
    }
    return {**own, **{f"head.{name}": tensor for name, tensor in copy_of(model.head).items()}}


def farthest(one, other):
    """How far two states of the same names are apart, at most."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)
