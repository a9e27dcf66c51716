"""Which samples a peer trains in an epoch, where it does not rank them."""

import asyncio
import itertools

import numpy as np
import pytest

from paceline.learning.shards import Shard
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.peer_data import Holding, TrainingData
from tests.topologies.gossip.answers import StillTrainer


def holding(num_samples, *, copies=()):
    """Samples that differ in their label; the copies of others go on counting."""
    shards = [
        Shard(np.zeros((num_samples, 4), np.uint8), np.arange(num_samples) + num_samples * place)
        for place in range(1 + len(copies))
    ]
    return Holding(shards[0], 0, dict(zip(copies, shards[1:], strict=True)))


def trained(data, counts):
    """The samples of epochs that keep so many."""

    async def choose_all():
        return [(await data.choose({}, epoch, count))[0].y.tolist() for epoch, count in enumerate(counts, 1)]

    return asyncio.run(choose_all())


@pytest.mark.parametrize("counts", [[4, 4, 4], [5, 3, 4], [1] * 12])
def test_every_sample_gets_its_turn_before_one_comes_again(counts):
    epochs = trained(TrainingData(GossipJob(), "m", holding(12), StillTrainer()), counts)
    assert sorted(itertools.chain(*epochs)) == list(range(12))


def test_an_epoch_may_go_on_with_the_next_turn_which_has_an_order_of_its_own():
    first, second, third = trained(TrainingData(GossipJob(), "m", holding(6), StillTrainer()), [4, 4, 4])
    assert sorted(first + second[:2]) == sorted(second[2:] + third) == list(range(6))
    assert first + second[:2] != second[2:] + third


def test_parts_of_others_are_trained_from_their_beginning():
    data = TrainingData(GossipJob(), "m", holding(6, copies=(3,)), StillTrainer())
    trained(data, [4])
    asyncio.run(data.take((3,)))
    (both,) = trained(data, [12])
    assert sorted(both) == list(range(12))
