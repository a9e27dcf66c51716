"""Federated jobs: data stays on the devices, and only parameters travel."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.averaging import AggregationSpec
from paceline.learning.datasets import DataSpec
from paceline.topologies.base import DeviceOptions
from paceline.topologies.parallel import job_training
from paceline.topologies.parallel.events import ShardsTaken
from paceline.topologies.parallel.topology import TOPOLOGY, JobPlan
from tests.topologies.parallel.runs import ByHand, closed, device, node_of, of, play, small_job

LOCAL = DataSpec(name="digits", shard_size=32, placement="local")
FLEET = [device("a", 100), device("b", 200), device("c", 400)]


@pytest.mark.parametrize("aggregation", [AggregationSpec(), AggregationSpec(method="fedprox", mu=0.1)])
def test_a_federated_fleet_learns(aggregation):
    job = small_job("dab", rounds=8, local_epochs=2, min_learners=3, data=LOCAL, aggregation=aggregation)
    outcome, events = play(job, FLEET)
    assert outcome.metrics["accuracy"] > 0.85
    assert events[0].num_shards == 0  # the orchestrator has none
    assert all(event.num_updates == 3 for event in closed(events))
    most = max(event.num_shards for event in of(ShardsTaken, events))
    assert most <= 15  # a third of 45: a device trains its own data only


def test_fedprox_holds_updates_near():
    moved = []
    for aggregation in (AggregationSpec(), AggregationSpec(method="fedprox", mu=10.0)):
        job = small_job("dab", rounds=1, local_epochs=4, min_learners=3, data=LOCAL, aggregation=aggregation)
        initial = play(job, FLEET, first_round=2)[0].state  # no round is left to play
        final = play(job, FLEET)[0].state
        moved.append(sum(float((final[name] - initial[name]).norm()) for name in final))
    assert moved[1] < 0.7 * moved[0]


def test_what_cannot_be_done_with_data_of_the_devices_is_refused():
    with pytest.raises(ValueError, match='placement is "local", but this policy divides shards'):
        small_job("eta", data=LOCAL)
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
    np.savez(tmp_path / "own.npz", x_train=dataset.x_train[:96], y_train=dataset.y_train[:96])
    by_hand = ByHand(rounds=2, data=LOCAL)

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), [], data=tmp_path / "own.npz") as node:
            with pytest.raises(ConfigError, match="trains on data of the devices' own: pass --data FILE.npz"):
                await TOPOLOGY.join(replace(node, options=DeviceOptions())).run("")
            await asyncio.wait_for(TOPOLOGY.join(node).run(""), 60)

    by_hand.play(main)
    assert [(event.num_updates, event.num_samples) for event in closed(by_hand.events)] == [(1, 96), (1, 96)]
