"""Shards: stored once as they are sent, handed out as views; and a sampler that deals them fairly."""

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.learning.shards import Shard, ShardSampler, ShardStore, minibatch_sizes
from paceline.learning.tables import ArrayTable


def numbered(count):
    """Images whose pixels are their numbers, and labels that follow from them."""
    x = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None, None], (count, 1, 4, 4))
    return x, (np.arange(count) % 7).astype(np.uint8)


def test_a_shard_is_its_columns_labels_last():
    tokens, lengths, labels = np.arange(12).reshape(4, 3), np.arange(4), np.array([1, 0, 1, 1])
    shard = Shard(tokens, lengths, labels)
    assert shard.x is tokens
    assert shard.y is labels
    assert shard.num_samples == 4
    for rows in (slice(1, 3), np.array([3, 0])):
        taken = shard.take(rows)
        assert isinstance(taken, Shard)
        assert [column.tolist() for column in taken] == [column[rows].tolist() for column in shard]


def test_shards_are_views_of_one_store():
    x, y = numbered(25)
    store = ShardStore(ArrayTable({"x": x, "y": y}), 10, seed=1)
    for number, shard in enumerate(store):
        again = store[number]
        for array, twin in zip(shard, again, strict=True):
            assert np.shares_memory(array, twin)
            assert array.flags.c_contiguous
        assert shard.x.base is store[0].x.base
        assert shard.y.base is store[0].y.base
    assert not np.shares_memory(store[0].x, store[1].x)
    assert (store[0].x.base.nbytes, store[0].y.base.nbytes) == (x.size, y.size)


def test_a_shard_in_another_process_has_the_same_columns():
    shard = Shard(*numbered(5))
    received = pickle.loads(pickle.dumps(shard))
    assert isinstance(received, Shard)
    assert all(np.array_equal(*pair) for pair in zip(shard, received, strict=True))


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 5))
def test_every_sample_is_in_one_shard_with_its_label(num_samples, shard_size, seed):
    x, y = numbered(num_samples)
    store = ShardStore(ArrayTable({"x": x, "y": y}), shard_size, seed)
    shards = list(store)
    sizes = [shard.num_samples for shard in shards]
    assert len(shards) == len(store)
    assert sizes[:-1] == [store.shard_samples] * (len(store) - 1)
    assert 0 < sizes[-1] <= store.shard_samples <= shard_size
    assert sizes == [store.num_samples(number) for number in range(len(store))]
    pixels = np.concatenate([shard.x[:, 0, 0, 0] for shard in shards])
    assert sorted(pixels.tolist()) == list(range(num_samples))
    assert all((shard.y == shard.x[:, 0, 0, 0] % 7).all() for shard in shards)


@given(st.integers(0, 12), st.lists(st.integers(0, 20), max_size=20), st.lists(st.integers(0, 9), min_size=1))
def test_a_deck_deals_none_twice_before_all_were_dealt(num_shards, counts, seed):
    sampler, drawn = ShardSampler(num_shards, seed), Counter(dict.fromkeys(range(num_shards), 0))
    for count in counts:
        draw = sampler.draw(count)
        assert len(draw) == len(set(draw)) == min(count, num_shards)
        drawn.update(draw)
        assert set(drawn) == set(range(num_shards))
        assert max(drawn.values(), default=0) - min(drawn.values(), default=0) <= 1


@pytest.mark.parametrize(
    ("num_samples", "batch_size", "expected"),
    [
        (64, 32, [32, 32]),
        (70, 32, [32, 32, 6]),
        (65, 32, [32, 33]),  # one alone would be too few for batch normalisation
        (33, 32, [33]),
        (1, 32, [1]),
        (31, 32, [31]),
        (3, 1, [1, 1, 1]),
        (3, 2, [3]),
        (0, 32, []),
    ],
)
def test_minibatches_have_such_sizes(num_samples, batch_size, expected):
    assert minibatch_sizes(num_samples, batch_size) == expected
    assert sum(expected) == num_samples
