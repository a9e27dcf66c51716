"""The other schemes, each against the same computed by hand: images at the trunk, and layers that are averaged."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from paceline.fleets.modelled import InstantEngine
from paceline.learning import checkpoints
from paceline.learning.datasets import Dataset
from paceline.learning.local_model import LocalModel
from paceline.learning.model_parts import make_chain
from paceline.learning.models import ModelSpec, build
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.preprocessing import Standardise
from paceline.learning.tables import ArrayTable
from paceline.learning.tasks import Task, TaskSpec
from paceline.topologies.split.events import JunctionChanged, NodeSpent, SplitStarted
from paceline.topologies.split.jobs import AveragingSpec
from paceline.topologies.split.messages import SyncPoint
from paceline.topologies.split.samples import view_of
from paceline.topologies.split.schemes.averaging import AveragingAtTrunk
from paceline.topologies.split.schemes.images import ImagesAtTrunk
from tests.topologies.split.runs import ADAM, CUT, SGD, device, farthest, fleet, play, small_split

NAMES = "abc"
STILL = OptimizerSpec(name="SGD", options={"lr": 1e-12})
LEARNING = ("1", "3", "5")
"""The layers of two-nn that learn."""


def own(state, source):
    """The model of a source."""
    prefix = f"sources.{source}."
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def views(split):
    return [view_of(split.dataset, split.terms(number, ()), number) for number in (1, 2, 3)]


def trained(split, view, state=None, epoch=1):
    """What a source learns in an epoch, left alone."""
    model = LocalModel(split.training, None)
    for _ in model.minibatches(state or model.state(), [view.train], split.job.seed * 1_000_003 + epoch):
        pass
    return model.layout.unpack(model.parameters())


def mean(states):
    return {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}


def test_with_all_layers_and_no_hold_it_is_fedavg():
    split = small_split(scheme="gfl", epochs=2, optimizer=OptimizerSpec(name="SGD", options={"lr": 0.05}))
    played = play(split, fleet())
    first = mean([trained(split, view) for view in views(split)])
    expected = mean([trained(split, view, first, 2) for view in views(split)])
    for source in NAMES:
        assert farthest(own(played.state, source), expected) < 1e-6
    model = LocalModel(split.training, None)
    scores = [model.evaluate(expected, view.test) for view in views(split)]
    loss, accuracy = np.mean([(one.loss, one.metrics["accuracy"]) for one in scores], axis=0)
    _, ended = played.epochs
    assert (ended.loss, ended.metrics["accuracy"]) == (pytest.approx(loss, rel=1e-4), pytest.approx(accuracy))
    assert (ended.num_steps, ended.num_samples) == (30, 960)


def test_layers_that_are_not_named_stay_with_their_source():
    split = small_split(scheme="gfl", epochs=1, optimizer=SGD, averaging=AveragingSpec(layers=("5",)))
    state = play(split, fleet()).state
    alone = dict(zip(NAMES, [trained(split, view) for view in views(split)], strict=True))
    shared = mean(list(alone.values()))
    for source in NAMES:
        for name, tensor in own(state, source).items():
            expected = shared if name.startswith("model.5.") else alone[source]
            assert torch.allclose(tensor, expected[name], atol=1e-6), name
    assert not torch.equal(own(state, "a")["model.1.weight"], own(state, "b")["model.1.weight"])


def held(split, view, layers, mu):
    """An epoch of FedProx, written out."""
    torch.manual_seed(split.training.seed)
    model = build(split.training.model, split.training.input_shape, split.training.num_outputs).train()
    anchors = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    order = torch.randperm(len(view.train.y), generator=torch.Generator().manual_seed(split.job.seed * 1_000_003 + 1))
    how = split.training.normalisation
    x = (torch.from_numpy(view.train.x).float() * how.scale - how.mean[0]) / how.std[0]
    y = torch.from_numpy(view.train.y.astype(np.int64))
    for batch in torch.split(order, 32):
        hold = sum(
            (parameter - anchors[name]).square().sum()
            for name, parameter in model.named_parameters()
            if name.partition(".")[0] in layers
        )
        optimizer.zero_grad()
        (torch.nn.functional.cross_entropy(model(x[batch]), y[batch]) + mu / 2 * hold).backward()
        optimizer.step()
    return {f"model.{name}": tensor.detach() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("layers", [("3", "5"), ()])
def test_fedprox_holds_what_is_averaged_and_nothing_else(layers):
    averaging, plain = AveragingSpec(layers=layers, mu=2.0), OptimizerSpec(options={"lr": 0.05})
    split = small_split(scheme="gfl", epochs=1, optimizer=plain, averaging=averaging)
    state = play(split, fleet()).state
    alone = [held(split, view, layers or LEARNING, 2.0) for view in views(split)]
    for source, mine in zip(NAMES, alone, strict=True):
        for name, tensor in own(state, source).items():
            is_shared = not layers or name.split(".")[1] in layers
            expected = mean(alone)[name] if is_shared else mine[name]
            assert torch.allclose(tensor, expected, atol=1e-5), name
    free = [held(split, view, (), 0.0) for view in views(split)]
    assert farthest(alone[0], free[0]) > 1e-3  # the hold is felt


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["SGD", "Adam"])
def test_images_are_handed_over_once_and_learned_from_by_one_model(optimizer):
    split = small_split(scheme="images", epochs=2, test_epochs=2, optimizer=optimizer)
    edge = device("edge", 2000.0, is_server=True)
    played = play(split, [*fleet(), edge])
    model, seen = LocalModel(split.training, None), views(split)
    kept = model.new_optimizer()
    for epoch in (1, 2):
        shards = [view.train for view in seen]
        for _ in model.minibatches(model.state(), shards, split.job.seed * 1_000_003 + epoch, optimizer=kept):
            pass
    assert farthest(played.state, model.state()) < 1e-6
    tested = [model.evaluate(model.state(), view.test) for view in seen]
    assert played.epochs[-1].metrics["accuracy"] == pytest.approx(
        np.mean([scores.metrics["accuracy"] for scores in tested])
    )
    assert not played.epochs[0].metrics  # tested as often as the job says
    assert [event.num_samples for event in played.epochs] == [960, 960]
    sent = {event.epoch: event.bytes_sent for event in played.of(NodeSpent, "a")}
    assert (320 + 300) * 64 < sent[1] < 1.1 * (320 + 300) * 64 + 2000
    assert sent[2] < 2000
    assert played.epochs[1].seconds == pytest.approx(960 / 2000)
    forward = 8800 / 20000  # of what training takes
    assert played.epochs[1].test_seconds == pytest.approx(900 * forward / 2000)


@pytest.mark.parametrize("scheme", ["fpl", "images", "gfl", "split-learning"])
def test_each_learns_and_the_same_each_time(scheme):
    split = small_split(scheme=scheme, epochs=4)
    first, second = (play(split, fleet(speed_noise=0.2)) for _ in range(2))
    assert first.events == second.events
    assert first.epochs[-1].metrics["accuracy"] > max(0.3, first.epochs[0].metrics["accuracy"])
    whole = sum(
        each.numel() for layer in make_chain(split.training, None).layers.values() for each in layer.parameters()
    )
    parts = first.of(SplitStarted)[0].num_parameters
    expected = {
        "fpl": {"branch": 64 * 50 + 50, "junction": 3 * 50 * 50 + 50, "trunk": 50 * 20 + 20 + 20 * 10 + 10},
        "images": {"branch": 0, "junction": 0, "trunk": whole},
        "gfl": {"branch": whole, "junction": 0, "trunk": 0},
        "split-learning": {"branch": 3250, "junction": 0, "trunk": 3 * 50 * 20 + 20 + 210},
    }
    assert parts == expected[scheme]
    num_branches = 1 if scheme == "images" else 3
    kept = sum(tensor.numel() for name, tensor in first.state.items() if not name.startswith("preprocessing."))
    assert kept == num_branches * parts["branch"] + parts["junction"] + parts["trunk"]


def test_who_comes_to_an_average_late_begins_with_it():
    played = play(small_split(scheme="gfl", epochs=5), [*fleet(), device("d", joins_at_seconds=0.8)])
    assert [event.num_sources for event in played.epochs][-1] == 4
    assert farthest(own(played.state, "d"), own(played.state, "a")) < 1e-6
    assert played.of(JunctionChanged) == []


TESTED = {"tested": torch.tensor([0.1, 0.04], dtype=torch.float64)}


@pytest.mark.parametrize(
    ("phase", "tensors", "said"),
    [
        ("test", {}, "test: there must be tested alone, of 2 numbers"),
        ("test", {"tested": torch.tensor([0.1, 0.04, 1.0]).double()}, "test: there must be tested alone, of 2 numbers"),
        ("test", {"tested": torch.tensor([float("nan"), 0.04]).double()}, "the loss is nan"),
        ("average", {}, "average: parameters ['float32'] are missing"),
        ("backup", {"float32": torch.zeros(210)}, "backup: float32 has shape (210,), not (4480,)"),
    ],
)
def test_what_cannot_be_averaged_is_refused(phase, tensors, said):
    split = small_split(scheme="gfl", averaging=AveragingSpec(layers=("5",)))
    trunk = AveragingAtTrunk(split, NAMES)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        trunk.unpack(1, SyncPoint(phase, 0), tensors)
    assert said in str(caught.value)
    assert trunk.unpack(1, SyncPoint("test", 0), TESTED) is TESTED


def test_images_of_floats_may_not_hold_nan():
    split = small_split(scheme="images", num_samples=4, num_test_samples=2)
    stored = split.dataset.train.take(slice(None))
    floats = ArrayTable({"x": stored.x.astype(np.float32), "y": stored.y})
    trunk = ImagesAtTrunk(dataclasses.replace(split, dataset=Dataset("floats", floats, floats)), InstantEngine())
    x = torch.from_numpy(floats.take(slice(None)).x)
    assert np.array_equal(trunk.unpack(1, SyncPoint("images", 0), {"values": x}), x.numpy())
    with pytest.raises(ValueError, match="images hold NaN or infinity"):
        trunk.unpack(1, SyncPoint("images", 0), {"values": x / 0})


class Paced(Task):
    """Learns nothing after its first epoch."""

    def model(self):
        return nn.Sequential(Standardise(), nn.Flatten(), nn.Linear(64, 20), nn.Linear(20, 10))

    def loss(self, model, batch):
        inputs, labels = batch
        return nn.functional.cross_entropy(model(inputs), labels.long())

    def schedule(self, round, rounds):
        return float(round == 1)


PARTS = {
    "fpl": ([f"branches.{name}." for name in NAMES], ["head.layers."], {}),
    "split-learning": ([f"branches.{name}." for name in NAMES], ["head.layers."], {"3"}),
    "gfl": ([f"sources.{name}.model." for name in NAMES], [], {}),
    "images": (["model."], [], {}),
}
"""Prefixes of the parts before and after the cut in the state of a run, and layers that do not start from another."""


@pytest.mark.parametrize("scheme", PARTS)
def test_every_scheme_starts_from_what_was_learned_before(scheme, tmp_path):
    torch.manual_seed(5)
    learned = build(ModelSpec(name="two-nn"), (1, 8, 8), 10).state_dict()
    checkpoints.write(tmp_path / "start.safetensors", learned)
    model = ModelSpec(name="two-nn", start=str(tmp_path / "start.safetensors"))
    split = small_split(scheme=scheme, epochs=1, model=model, optimizer=STILL)
    state = play(split, fleet()).state
    before, after, new = PARTS[scheme]
    is_cut = bool(after)
    for name, tensor in learned.items():
        layer = name.split(".")[0]
        prefixes = after if is_cut and layer >= CUT else before
        for prefix in prefixes:
            assert (layer in new) or torch.allclose(state[f"{prefix}{name}"], tensor, atol=1e-6), prefix


@pytest.mark.parametrize("scheme", PARTS)
def test_learning_rates_follow_the_schedule_of_a_task(scheme):
    task = TaskSpec(import_path=f"{__name__}:Paced")
    rules = {"scheme": scheme, "epochs": 2, "task": task, "model": ModelSpec(), "optimizer": SGD}
    played = play(small_split(**rules), fleet())
    first, second = (played.states[epoch] for epoch in (1, 2))
    untrained = play(small_split(**{**rules, "epochs": 1, "optimizer": STILL}), fleet()).state
    learning = [name for name in second if name.endswith("weight")]
    assert all(not second[name].equal(untrained[name]) for name in learning)
    assert all(second[name].equal(first[name]) for name in learning)
