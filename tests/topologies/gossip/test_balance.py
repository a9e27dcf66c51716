"""How much each peer trains, whose data it takes over, and what it reports of data that nobody has."""

import asyncio

import pytest

from paceline.allocation.edge_gossip import AllDataAllocation, EdgeGossipAllocation
from paceline.devices.contention import RecentPredictor
from paceline.topologies.gossip.balance import Balancer
from paceline.topologies.gossip.events import DataMissing, PartTakenOver
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.membership import Membership
from paceline.topologies.gossip.peer_data import Holding, TrainingData
from paceline.topologies.gossip.stores import GossipedStore
from tests.topologies.gossip.answers import DictStore, StillTrainer, record
from tests.topologies.gossip.swarm import shard


def known(name, rate=100.0, num_samples=100, **changes):
    """A peer that has published its figures."""
    figures = Figures(learner=name, samples_per_second=rate, num_samples=num_samples, epoch=0)
    return record(name, figures=figures, **changes)


class Trial:
    """The balancer of a peer called m, which has 100 samples and trains 50 per second."""

    def __init__(self, others, policy=None, copies=(), store=None):
        self.membership = Membership(record("m", parts=(0, *copies)))
        self.membership.merge(others)
        self.events = []
        predictor = RecentPredictor()
        predictor.observe(50, 1.0)
        holding = Holding(shard(100), 0, {part: shard(10 * part) for part in copies})
        self.data = TrainingData(GossipJob(), "m", holding, StillTrainer())
        store = store or GossipedStore(self.membership)
        policy = policy or EdgeGossipAllocation()
        self.balancer = Balancer(policy, self.membership, store, predictor, self.events.append)
        asyncio.run(self.balancer.publish_speed(0, 100))

    def decide(self, epoch=1):
        """The samples to train."""
        return asyncio.run(self.balancer.decide(epoch, 0.0, self.data))[0]


def test_a_slow_peer_keeps_what_the_fastest_has_time_for():
    assert Trial([known("b", rate=200.0)]).decide() == 25
    assert Trial([known("b", rate=200.0)], AllDataAllocation()).decide() == 100


def test_who_published_nothing_yet_or_left_plays_no_part():
    others = [record("new"), known("gone", rate=1000.0, status="left")]
    trial = Trial(others)
    assert trial.decide() == 100
    assert trial.events == []


def test_the_part_of_one_that_failed_is_taken_over_once_and_given_back_when_its_peer_returns():
    trial = Trial([known("b", num_samples=30, parts=(3, 2), status="dead")], copies=(3,))
    assert trial.decide() == 130
    assert trial.decide(epoch=2) == 130
    assert trial.data.taken == (3,)
    (taken,) = trial.events
    assert taken == PartTakenOver(at=0.0, learner="m", other="b", epoch=1, num_samples=30)
    trial.membership.merge([known("b", rate=50.0, life=2, parts=(3, 2))])
    assert trial.decide(epoch=3) == 100
    assert trial.data.taken == ()


def test_the_next_by_name_takes_over_and_the_others_do_not():
    dead = known("l", parts=(3,), status="dead")
    heir = known("lz", rate=50.0, parts=(5, 3))  # comes before m, after l
    trial = Trial([dead, heir], copies=(3,))
    assert trial.decide() == 100
    trial.membership.merge([known("lz", rate=50.0, parts=(5, 3), beat=1, status="dead")])
    trial.decide(epoch=2)
    assert trial.data.taken == (3,)


def test_a_part_that_another_trains_as_its_own_is_not_taken_over():
    dead, back = known("peer-1f", parts=(3,), status="dead"), known("peer-9a", rate=50.0, parts=(3,))
    trial = Trial([dead, back], copies=(3,))
    assert trial.decide() == 100
    assert trial.events == []


def test_data_that_nobody_has_is_reported_once():
    others = [known("b", num_samples=30, parts=(3,), status="dead"), known("c", rate=50.0, parts=(4,))]
    trial = Trial(others)
    trial.decide()
    trial.decide(epoch=2)
    (missing,) = trial.events
    assert isinstance(missing, DataMissing)
    assert (missing.others, missing.num_samples, missing.share_failed) == (("b",), 30, pytest.approx(1 / 3))


def test_few_failures_change_nothing_and_a_dead_peer_is_not_the_fastest():
    dead = known("b", rate=1000.0, parts=(3,), status="dead")
    trial = Trial([dead, *(known(f"c{number}", rate=50.0) for number in range(10))], copies=(3,))
    assert trial.decide() == 100
    assert trial.events == []


@pytest.mark.parametrize("policy", [EdgeGossipAllocation(), AllDataAllocation()])
def test_absurd_figures_of_a_store_do_no_harm(policy):
    absurd = {
        "b": Figures(learner="b", samples_per_second=1.0, num_samples=10**15, epoch=0),
        "nobody": Figures(learner="nobody", samples_per_second=1e15, num_samples=1, epoch=0),
    }
    assert Trial([record("b")], policy, store=DictStore(shared=absurd)).decide() == 100
