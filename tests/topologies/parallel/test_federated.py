"""Federated jobs: data stays on the devices, and only parameters travel."""

import asyncio
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.aggregation import FedAvgAggregation, FedProxAggregation
from paceline.learning.datasets import DataSpec
from paceline.learning.partitions import PartitionSpec
from paceline.topologies.base import DeviceOptions
from paceline.topologies.parallel import job_training
from paceline.topologies.parallel.events import ShardsTaken
from paceline.topologies.parallel.messages import Declaration
from paceline.topologies.parallel.own_data import cut, own_data_of
from paceline.topologies.parallel.topology import TOPOLOGY, JobPlan
from tests.learning.small_data import arrays_of
from tests.topologies.parallel.runs import ByHand, closed, device, node_of, of, play, small_job


def are_same(one, other):
    """Whether two tables have the same samples."""
    columns = zip(one.take(slice(None)), other.take(slice(None)), strict=True)
    return all(np.array_equal(mine, theirs) for mine, theirs in columns)


LOCAL = DataSpec(name="digits", shard_size=32, placement="local")
FLEET = [device("a", 100), device("b", 200), device("c", 400)]


@pytest.mark.parametrize("aggregation", [FedAvgAggregation(), FedProxAggregation(mu=0.1)])
def test_a_federated_fleet_learns(aggregation):
    job = small_job("dab", rounds=8, local_epochs=2, min_learners=3, data=LOCAL, aggregation=aggregation)
    outcome, events = play(job, FLEET)
    assert outcome.metrics["accuracy"] > 0.85
    assert events[0].num_shards == 0  # the orchestrator has none
    assert all(event.num_updates == 3 for event in closed(events))
    most = max(event.num_shards for event in of(ShardsTaken, events))
    assert most <= 15  # a third of 45: a device trains its own data only


@pytest.mark.parametrize(
    ("partition", "most"),
    [
        (PartitionSpec(kind="dirichlet", alpha=0.3), None),
        (PartitionSpec(kind="classes", classes_per_device=4), None),
        (PartitionSpec(kind="quantity", size_skew=2), [34, 9, 4]),
    ],
)
def test_parts_are_as_the_job_says(partition, most):
    job = small_job("dab", rounds=1, deadline_seconds=60.0, min_learners=3, data=LOCAL, partition=partition)
    _, events = play(job, FLEET, is_time_only=True)
    taken = {event.learner: event.num_shards for event in of(ShardsTaken, events)}
    assert closed(events)[0].num_samples == 1438  # all is there, and nothing twice
    assert most is None or sorted(taken.values(), reverse=True) == most


@pytest.mark.parametrize(
    "policy", ["csa", "sync", "eta", {"policy": "eta", "asynchronous": True}, {"policy": "csa", "shards_per_round": 12}]
)
@pytest.mark.parametrize("deadline_seconds", [20.0, 2.0])
def test_the_orchestrator_allocates_what_devices_have(policy, deadline_seconds):
    """The distributed datasets of Mohammad and Sorour: no data is sent, and nobody gets more than it has."""
    spec = PartitionSpec(kind="quantity", size_skew=1)
    rules = {"deadline_seconds": deadline_seconds, "rounds": 2, "min_learners": 3, "local_epochs": 2, "overtime": 50.0}
    _, events = play(small_job(policy, data=LOCAL, partition=spec, **rules), FLEET, is_time_only=True)
    has = {"a": 9, "b": 25, "c": 13}
    taken = {(event.round, event.learner): event.num_shards for event in of(ShardsTaken, events)}
    assert all(count <= has[learner] for (_, learner), count in taken.items())
    if isinstance(policy, dict) and "shards_per_round" in policy:
        assert [event.num_shards for event in closed(events)] == [12, 12]
    elif deadline_seconds == 20.0 or "eta" in policy:
        assert [event.num_shards for event in closed(events)] == [sum(has.values())] * 2
    assert all(event.num_updates == event.num_learners > 0 for event in closed(events))
    assert all(event.fulfilment == 1 and event.staleness == int(event.staleness) for event in closed(events))
    if policy == "sync":
        assert all(event.staleness == 0 for event in closed(events))


def test_more_than_a_learner_declared_is_not_handed_to_it():
    by_hand = ByHand("eta", rounds=1, data=LOCAL)

    async def main(orchestrator):
        session = await by_hand.join()
        await orchestrator.declare(session, Declaration(num_shards=3))
        ticket = await orchestrator.next_round(session, 0, None)
        for wrong, message in (((4,), "at least 1 and at most 3 can"), ((3, 97), "97 samples cannot be in 3 shards")):
            with pytest.raises(ValueError, match=message):
                await orchestrator.take(session, 1, *wrong)
        await orchestrator.take(session, 1, 3, 70)
        receipts = [await orchestrator.update(session, 1, by_hand.parameters, count) for count in (71, 70)]
        return ticket.allocation.num_shards, [receipt.is_accepted for receipt in receipts]

    assert by_hand.play(main) == (3, [False, True])


def test_fedprox_holds_updates_near():
    moved = []
    for aggregation in (FedAvgAggregation(), FedProxAggregation(mu=10.0)):
        job = small_job("dab", rounds=1, local_epochs=4, min_learners=3, data=LOCAL, aggregation=aggregation)
        initial = play(job, FLEET, first_round=2)[0].state  # no round is left to play
        final = play(job, FLEET)[0].state
        moved.append(sum(float((final[name] - initial[name]).norm()) for name in final))
    assert moved[1] < 0.7 * moved[0]


def test_what_cannot_be_done_with_data_of_the_devices_is_refused():
    with pytest.raises(ValueError, match='placement is "local", but this policy divides shards'):
        small_job("med", data=LOCAL)
    with pytest.raises(ValueError, match="partition is for data that stays on the devices"):
        small_job("dab", partition=PartitionSpec(kind="quantity"))
    with pytest.raises(ValueError, match="replicas is 2; only peers of a gossip job hold copies"):
        small_job("dab", data=LOCAL, partition=PartitionSpec(replicas=2))
    with pytest.raises(ConfigError, match="1438 samples of digits are too few for 2000 devices"):
        play(small_job("dab", data=LOCAL), [device("many", count=2000)], is_time_only=True)


@pytest.mark.parametrize(("placement", "most"), [("local", 10), ("served", 3)])
def test_only_shards_that_are_sent_are_limited_by_what_a_message_holds(monkeypatch, placement, most):
    monkeypatch.setattr(job_training, "MAX_SERVED_SHARDS", 3)
    by_hand = ByHand(data=DataSpec(name="digits", shard_size=2, placement=placement), rounds=1)

    async def main(orchestrator):
        session = await by_hand.take(num_shards=10)
        receipts = [await orchestrator.update(session, 1, by_hand.parameters, 2 * n) for n in (most + 1, most)]
        return [receipt.is_accepted for receipt in receipts]

    assert by_hand.play(main) == [False, True]
    assert [event.num_shards for event in of(ShardsTaken, by_hand.events)] == [most]


def test_devices_join_with_data_of_their_own(tmp_path):
    dataset = datasets.load(DataSpec(name="digits"))
    np.savez(tmp_path / "own.npz", **arrays_of(dataset, slice(96), ["train"]))
    by_hand = ByHand(rounds=2, data=LOCAL)

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), [], data=str(tmp_path / "own.npz")) as node:
            with pytest.raises(ConfigError, match="trains on data of the devices' own: pass --data PATH"):
                await TOPOLOGY.join(replace(node, options=DeviceOptions())).run("")
            await asyncio.wait_for(TOPOLOGY.join(node).run(""), 60)

    by_hand.play(main)
    assert [(event.num_updates, event.num_samples) for event in closed(by_hand.events)] == [(1, 96), (1, 96)]


def test_a_part_of_the_jobs_data_is_the_same_on_the_device_as_in_a_simulation(tmp_path):
    spec = PartitionSpec(kind="dirichlet", alpha=0.3)
    digits = datasets.load(LOCAL)
    np.savez(tmp_path / "copy.npz", **arrays_of(digits))
    parts = cut(LOCAL, 3, spec, seed=0)
    for data, name in ((None, "digits"), (str(tmp_path / "copy.npz"), "")):
        offer = msgspec.structs.replace(ByHand(data=LOCAL, partition=spec).prepared.offer, dataset=name)
        own = own_data_of(DeviceOptions(data=data, part=(2, 3)))(offer)
        assert are_same(own, parts[1])
    part = own_data_of(DeviceOptions(part=(2, 3)))
    for name, message in (("", "pass a part of your copy of it, --data PATH:I/N"), ("mnits", "is not known here")):
        with pytest.raises(ConfigError, match=message):
            part(msgspec.structs.replace(offer, dataset=name))
