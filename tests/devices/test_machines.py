"""This machine, as roles use it: the threads that it trains with."""

import asyncio

import pytest
import torch

from paceline.devices.machines import LiveMachine
from paceline.devices.subset_benchmark import choose_threads
from paceline.learning.local_model import LocalModel
from paceline.learning.trainers import ThreadTrainer
from tests.learning.small_tasks import make_shards, make_spec


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class WatchedModel(LocalModel):
    """Notes how many threads it is trained with."""

    def minibatches(self, *args, **options):
        self.num_threads = torch.get_num_threads()
        return super().minibatches(*args, **options)


@pytest.mark.parametrize(("threads", "counts"), [(None, (1, 2)), (1, (1,)), (3, (3,))])
def test_threads_are_tried_unless_the_owner_decides(two_threads, threads, counts):
    trainer = LiveMachine(threads=threads).trainer(make_spec("two-nn"))
    assert (trainer.thread_counts, trainer.num_threads) == (counts, None)
    asyncio.run(choose_threads(trainer, make_shards(40)))
    assert trainer.num_threads in counts


@pytest.mark.parametrize("count", [1, 2])
def test_a_trainer_uses_its_number_of_threads(two_threads, count):
    model = WatchedModel(make_spec("two-nn"))
    trainer = ThreadTrainer(model, thread_counts=(count,))
    asyncio.run(choose_threads(trainer, make_shards(40)))
    asyncio.run(trainer.train(trainer.initial_parameters(), make_shards(40)))
    assert model.num_threads == count
