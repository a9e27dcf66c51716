"""Small split runs on virtual time, and the same model trained in one process, for the tests here."""

import dataclasses
import functools

import torch

from paceline.fleets.base import SplitLaunch
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual_nodes import VirtualNodes
from paceline.learning import datasets
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec, loss_function
from paceline.learning.segments import SplitModel, copy_of, epoch_order, make_chain, make_head
from paceline.learning.shards import minibatch_sizes
from paceline.learning.tasks import OptimizerSpec
from paceline.learning.views import ViewSpec
from paceline.topologies.split import SplitJob, make_plan, view_of
from paceline.topologies.split.events import JunctionChanged, SplitEpochEnded
from paceline.topologies.split.samples import inputs_of, labels_of

CUT = "3"
"""Of two-nn: behind 50 values."""

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


def small_plan(num_samples=320, num_test_samples=300, **changes):
    """A plan for the first of the digits: ten steps an epoch, and two parts to test, if nothing else is said."""
    plan = make_plan(small_job(**changes))
    data = digits()
    few = dataclasses.replace(
        data,
        x_train=data.x_train[:num_samples],
        y_train=data.y_train[:num_samples],
        x_test=data.x_test[:num_test_samples],
        y_test=data.y_test[:num_test_samples],
    )
    return dataclasses.replace(plan, dataset=few)


def device(name, samples_per_second=1000.0, **changes):
    rules = {"down_mbit": 20, "up_mbit": 20, "latency_ms": 2}
    return VirtualDevice(name=name, samples_per_second=samples_per_second, **{**rules, **changes})


def fleet(**of_last):
    """Three sources that join in this order; the last of them may be special."""
    return [device("a", latency_ms=2), device("b", latency_ms=2.2), device("c", **{"latency_ms": 2.4, **of_last})]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watched(SplitLaunch):
    """A launch that lets the trunk be looked at while it runs."""

    trunks: list

    def trunk(self, *around):
        self.trunks.append(super().trunk(*around))
        return self.trunks[-1]


@dataclasses.dataclass(frozen=True)
class Played:
    """A run that is over.

    Attributes:
        states: all that the trunk had learned after each epoch.
        changed: the same at the moment when a junction had changed, by epoch.
    """

    trunk: object
    told: list
    states: dict
    changed: dict

    @property
    def state(self):
        return self.trunk.state

    def of(self, kind, learner=None):
        return [
            event for event in self.told if isinstance(event, kind) and (learner is None or event.learner == learner)
        ]

    @property
    def epochs(self):
        return self.of(SplitEpochEnded)


def play(plan, devices):
    """Run a plan on virtual devices."""
    told, trunks, states, changed = [], [], {}, {}

    def emit(event):
        told.append(event)
        if isinstance(event, SplitEpochEnded):
            states[event.epoch] = trunks[0].state
        if isinstance(event, JunctionChanged):
            changed[event.epoch] = trunks[0].state

    trunk = VirtualNodes(devices).run(Watched(plan=plan, emit=emit, trunks=trunks))
    return Played(trunk, told, states, changed)


def in_one_process(plan, sources, epochs=None, cut=CUT):
    """The state of the same model, all of whose parts one optimizer of one process has trained."""
    task, data = plan.task, plan.dataset
    chain = make_chain(task, None)
    branches = {source: make_chain(task, None).before(cut) for source in sources}
    model = SplitModel(branches, make_head(task, chain, cut, sources, plan.job.merge)).train()
    optimizer, loss = task.optimizer.make(model.parameters()), loss_function(task.model)
    terms = {source: plan.terms(number, (cut,)) for number, source in enumerate(sources, 1)}
    views = {source: view_of(data, terms[source], number).train.x for number, source in enumerate(sources, 1)}
    for epoch in range(1, (epochs or plan.job.epochs) + 1):
        order = epoch_order(len(data.y_train), plan.job.seed, epoch)
        for batch in torch.split(order, minibatch_sizes(len(order), task.batch_size)):
            chosen = batch.numpy()
            logits = model({source: inputs_of(x[chosen], terms[source]) for source, x in views.items()})
            optimizer.zero_grad()
            loss(logits, labels_of(data.y_train[chosen])).backward()
            optimizer.step()
    own = {
        f"branches.{source}.{name}": tensor for source in sources for name, tensor in copy_of(branches[source]).items()
    }
    return {**own, **{f"head.{name}": tensor for name, tensor in copy_of(model.head).items()}}


def farthest(one, other):
    """How far two states of the same names are apart, at most."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)
