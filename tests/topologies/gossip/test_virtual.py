"""Peers on virtual time: who dies, returns and joins, exactly the same each time."""

import pytest
import torch

from paceline.allocation.edge_gossip import EdgeGossipAllocation
from paceline.devices.energy import PowerModel
from paceline.errors import ConfigError, DivergedError, PacelineError
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.partitions import PartitionSpec
from paceline.topologies.base import Environment
from paceline.topologies.gossip.events import (
    ConsensusMeasured,
    DataMissing,
    EpochEnded,
    GossipEnded,
    GossipStarted,
    PartTakenOver,
    PeerEnded,
    PeerLost,
    PeerStarted,
)
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.topology import TOPOLOGY
from tests.topologies.parallel.own_models import Frozen


def device(name, samples_per_second=1000.0, **changes):
    rules = {"down_mbit": 100, "up_mbit": 100, "latency_ms": 1}
    return VirtualDevice(name=name, samples_per_second=samples_per_second, **{**rules, **changes})


def fleet(**of_last):
    """Four devices; the last of them may be special."""
    return [device("a"), device("b"), device("c", 500.0), device("d", 500.0, **of_last)]


def play(devices, *, is_time_only=False, **rules):
    """Run a small job; returns what came of it, the events of its peers, and the job made ready."""
    small = {
        "epochs": 5,
        "batch_size": 32,
        "min_peers": 2,
        "probe_seconds": 1.0,
        "patience_seconds": 0.5,
        "data": DataSpec(name="digits"),
        "model": ModelSpec(name="two-nn"),
        "optimizer": OptimizerSpec(name="SGD", options={"lr": 0.05, "momentum": 0.9}),
    }
    plan, events, saved = TOPOLOGY.prepare(GossipJob(**{**small, **rules})), [], {}
    env = Environment(emit=events.append, save=lambda key, state, *_: saved.update({key: state}))
    outcome = VirtualFleet(devices, is_time_only=is_time_only).run(plan, env)
    started, *events, ended = events
    assert isinstance(started, GossipStarted)
    assert started.clock == "virtual"
    assert ended.at == events[-1].at
    assert outcome.metrics == {"accuracy": None, **ended.metrics, "loss": ended.loss, "averaged": ended.averaged}
    assert list(saved)[-1] == "final"
    assert saved["final"] is outcome.state
    return outcome, events, plan.prepared


def of(kind, events, learner=None):
    return [event for event in events if isinstance(event, kind) and (learner is None or event.learner == learner)]


def averaged(outcome):
    return "".join(outcome.metrics["averaged"])


VARIANTS = {
    "plain": {},
    "push-sum": {"exchange": "push-sum", "push_probability": 0.2},
    "overlaps": {"overlaps": True},
    "int8": {"compression": "int8"},
    "dirichlet": {"partition": PartitionSpec(kind="dirichlet", alpha=0.5)},
}


@pytest.mark.parametrize("rules", VARIANTS.values(), ids=VARIANTS)
def test_all_learn_together_and_the_same_each_time(rules):
    noisy = [
        device(name, speed, speed_noise=0.2, link_noise=0.2)
        for name, speed in zip("abcd", (900, 700, 500, 300), strict=True)
    ]
    outcome, events, _ = play(noisy, **rules)
    again, events_again, _ = play(noisy, **rules)
    assert averaged(outcome) == "abcd"
    assert outcome.metrics["accuracy"] > 0.8
    assert events == events_again
    assert all((outcome.state[name] == again.state[name]).all() for name in again.state)
    assert len(of(EpochEnded, events)) == 4 * 5
    assert of(PeerLost, events) == []
    assert all(event.distance > 0 and event.metrics for event in of(ConsensusMeasured, events))


@pytest.mark.parametrize("rules", [VARIANTS["plain"], VARIANTS["push-sum"], VARIANTS["int8"]], ids=str)
@pytest.mark.parametrize("sends", ["trainable", ("model.head.*",)], ids=["trainable", "patterns"])
def test_only_what_the_job_sends_travels(rules, sends):
    frozen = {"model": ModelSpec(import_path="tests.topologies.parallel.own_models:Frozen"), **rules}
    outcome, events, prepared = play(fleet(), sends=sends, **frozen)
    whole, all_events, _ = play(fleet(), **frozen)
    sent, all_sent = (sum(event.bytes_sent for event in of(EpochEnded, found)) for found in (events, all_events))
    assert prepared.model_bytes == 4 * 257 * 10
    assert sent < all_sent / 2
    assert outcome.metrics["accuracy"] == pytest.approx(whole.metrics["accuracy"], abs=0.02)
    assert outcome.metrics["accuracy"] > 0.7
    for name in ("model.body.weight", "model.body.bias"):
        assert outcome.state[name].equal(prepared.start[name])


def test_peers_start_from_what_the_job_names_also_where_it_does_not_travel(tmp_path):
    torch.manual_seed(77)
    path = tmp_path / "start.safetensors"
    checkpoints.write(path, Frozen().state_dict())
    model = ModelSpec(import_path="tests.topologies.parallel.own_models:Frozen", start=str(path))
    outcome, _, prepared = play(fleet(), sends="trainable", model=model)
    assert prepared.training.base
    assert outcome.metrics["accuracy"] > 0.7
    assert outcome.state["model.body.weight"].equal(checkpoints.read(path)["body.weight"])


def test_an_epoch_takes_energy():
    power = PowerModel(busy_watts=4.0, idle_watts=1.0, joules_per_byte=0.001)
    _, events, _ = play([device("a", power=power), device("b", 100)], epochs=3)
    for event in of(EpochEnded, events):
        assert event.cpu_seconds == pytest.approx(event.train_seconds)
        num_bytes = event.bytes_sent + event.bytes_received
        joules = 4 * event.cpu_seconds + event.seconds + 0.001 * num_bytes if event.learner == "a" else None
        assert event.joules == pytest.approx(joules or 0.9 * event.cpu_seconds)
    assert [event.power["source"] for event in of(PeerStarted, events)] == ["model", "model"]


def test_with_time_only_nothing_is_learned_or_evaluated_and_consensus_is_measured_once_per_epoch():
    outcome, events, prepared = play(fleet(), is_time_only=True)
    measured = [(event.epoch, event.num_learners, event.scores) for event in of(ConsensusMeasured, events)]
    assert measured == [(epoch, 4, None) for epoch in range(1, 6)]
    start = prepared.state(prepared.model.parameters())
    assert all((outcome.state[name] == start[name]).all() for name in start)
    assert len(of(EpochEnded, events)) == 4 * 5


def test_slow_devices_train_less_where_the_balancer_says_so():
    _, events, _ = play(fleet(), allocation=EdgeGossipAllocation(), is_time_only=True)
    ratios = {event.learner: event.ratio for event in of(EpochEnded, events) if event.epoch == 5}
    assert ratios == pytest.approx({"a": 1.0, "b": 1.0, "c": 0.5, "d": 0.5}, abs=0.01)
    longest = max(event.exchange_seconds for event in of(EpochEnded, events) if event.epoch == 5)
    assert longest < 0.1


def test_one_dies_and_the_others_end_without_it():
    outcome, events, _ = play(fleet(dies_at_seconds=3.5), epochs=10, is_time_only=True)
    assert averaged(outcome) == "abc"
    lost = [event for event in of(PeerLost, events) if event.other == "d"]
    assert {event.learner for event in lost} == {"a", "b", "c"}
    assert all(3.5 < event.at < 6.0 for event in lost)
    assert all(event.at <= 3.5 for event in of(EpochEnded, events, "d"))
    assert {event.num_learners for event in of(ConsensusMeasured, events) if event.at > 6.0} == {3}


def test_one_that_returns_goes_on_with_what_the_others_have():
    devices = fleet(dies_at_seconds=3.5, returns_at_seconds=3.6)
    outcome, events, _ = play(devices, epochs=12, is_time_only=True)
    assert averaged(outcome) == "abcd"
    first, again = of(PeerStarted, events, "d")
    assert first.epoch == 1
    assert again.at > 3.6
    assert again.epoch > 3


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_a_joiner_takes_part_from_then_on(exchange):
    outcome, events, _ = play(fleet(joins_at_seconds=3.0), epochs=12, exchange=exchange, is_time_only=True)
    assert averaged(outcome) == "abcd"
    (begun,) = of(PeerStarted, events, "d")
    assert begun.epoch > 2
    assert begun.at > 3.0


@pytest.mark.parametrize(
    ("dies_at_seconds", "joins_at_seconds", "left"),
    [
        ({"a": 3.0, "b": 4.0, "c": 5.0}, {}, "d"),
        ({"a": 4.0, "b": 4.0}, {"d": 7.0}, "cd"),  # joins though the first devices are dead
        ({}, {"d": 1000.0}, "abc"),  # would come after the end
    ],
)
def test_whoever_is_left_ends_the_run(dies_at_seconds, joins_at_seconds, left):
    devices = [
        device(name, 500.0, dies_at_seconds=dies_at_seconds.get(name), joins_at_seconds=joins_at_seconds.get(name, 0.0))
        for name in "abcd"
    ]
    outcome, events, _ = play(devices, epochs=30, is_time_only=True)
    assert averaged(outcome) == left
    assert events[-1].at < 100


@pytest.mark.parametrize(
    ("dies_at_seconds", "rules", "error", "said"),
    [
        ((3.0, 3.0, 3.0, 3.0), {"epochs": 50}, PacelineError, "^0 of 4 devices are left, and the run needs 2"),
        ((None, None, None, 0.1), {"min_peers": 4}, PacelineError, "^3 of 4 devices are left, and the run needs 4"),
        ((None,) * 4, {"min_peers": 5}, ConfigError, "the fleet has 4 devices; the job needs 5 to begin"),
    ],
)
def test_too_few_end_the_run_with_a_reason(dies_at_seconds, rules, error, said):
    devices = [device(name, dies_at_seconds=at) for name, at in zip("abcd", dies_at_seconds, strict=True)]
    with pytest.raises(error, match=said):
        play(devices, is_time_only=True, **rules)


def test_the_part_of_a_dead_device_is_taken_over_by_who_has_a_copy():
    replicated = {"partition": PartitionSpec(replicas=2), "allocation": EdgeGossipAllocation()}
    _, events, prepared = play(fleet(dies_at_seconds=3.0), epochs=20, is_time_only=True, **replicated)
    (taken,) = of(PartTakenOver, events)
    assert (taken.learner, taken.other, taken.num_samples) == ("a", "d", prepared.holdings(4)[3].own.num_samples)
    assert of(DataMissing, events) == []


def test_loss_of_messages_is_borne():
    lossy = [device(name, packet_loss=0.1) for name in "abcd"]
    outcome, events, _ = play(lossy, epochs=10, patience_seconds=3.0, is_time_only=True)
    assert averaged(outcome) == "abcd"
    assert of(PeerLost, events) == []


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
@pytest.mark.parametrize("loss", [0.2, 0.3])
def test_nobody_gives_up_on_links_that_lose_one_in_three(exchange, loss):
    lossy = [device(name, packet_loss=loss) for name in "abcd"]
    for seed in range(10):
        rules = {"epochs": 6, "patience_seconds": 5.0, "exchange": exchange, "seed": seed, "is_time_only": True}
        outcome, events, _ = play(lossy, **rules)
        assert averaged(outcome) == "abcd", seed
        assert of(PeerLost, events) == [], seed
        assert len(of(EpochEnded, events)) == 4 * 6, seed


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_training_that_diverges_ends_the_run_with_a_reason(exchange):
    wild = OptimizerSpec(name="SGD", options={"lr": 1e6})
    with pytest.raises(DivergedError, match="training diverged in epoch 1 on [abcd]: of its parameters, float32 holds"):
        play(fleet(), exchange=exchange, optimizer=wild)


@pytest.mark.parametrize("rules", [VARIANTS["plain"], VARIANTS["push-sum"], VARIANTS["overlaps"]], ids=str)
def test_the_run_ends_when_most_peers_have_reached_the_target(rules):
    outcome, events, _ = play(fleet(), epochs=30, target="accuracy >= 0.8", **rules)
    ends = of(PeerEnded, events)
    reached = {event.learner for event in of(EpochEnded, events) if event.metrics["accuracy"] >= 0.8}
    assert averaged(outcome) == "abcd"
    assert outcome.metrics["accuracy"] > 0.75
    assert [event.reason for event in ends] == ["target reached"] * 4
    assert all(0 < event.epochs < 15 for event in ends)
    assert len(reached) > 2


def test_the_run_ends_when_most_peers_no_longer_improve_and_says_so():
    optimizer = OptimizerSpec(name="SGD", options={"lr": 1e-9})
    plan = TOPOLOGY.prepare(GossipJob(epochs=30, patience=3, watch="max accuracy", optimizer=optimizer))
    events = []
    VirtualFleet(fleet()).run(plan, Environment(emit=events.append))
    assert isinstance(events[-1], GossipEnded)
    assert events[-1].reason == "no improvement"
    assert {event.epochs for event in of(PeerEnded, events)} <= {4, 5}


def test_where_nothing_is_learned_no_target_is_looked_at():
    _, events, _ = play(fleet(), target="loss <= 1000", is_time_only=True)
    assert {event.reason for event in of(PeerEnded, events)} == {"epochs done"}
