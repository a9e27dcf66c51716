"""Partitions: every sample in one part, even or uneven as asked, and copies with the next peers."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.partitions import PartitionSpec, held_by, parts

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10, dtype=np.uint8), 60))


def spread(split, labels=LABELS):
    """How far the parts' shares of each class are from equal ones: the mean total variation."""
    whole = np.bincount(labels, minlength=10) / len(labels)
    shares = [np.bincount(labels[part], minlength=10) / len(part) for part in split]
    return float(np.mean([np.abs(share - whole).sum() / 2 for share in shares]))


@pytest.mark.parametrize(
    "spec", [PartitionSpec(), *(PartitionSpec(kind="dirichlet", alpha=a) for a in (1e-9, 0.1, 100))]
)
@pytest.mark.parametrize("num_parts", [1, 2, 7, 60])
def test_every_sample_is_in_one_part(spec, num_parts):
    split = parts(LABELS, num_parts, spec, seed=3)
    assert len(split) == num_parts
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(len(LABELS)))
    assert min(map(len, split)) >= 8


def test_equal_parts_are_equal_and_drawn_at_random():
    split = parts(LABELS, 7, PartitionSpec(), seed=0)
    assert {len(part) for part in split} == {85, 86}
    assert spread(split) < 0.15
    assert split[0].tolist() != sorted(split[0].tolist())


def test_the_smaller_alpha_is_the_less_alike_are_the_parts():
    spreads = [
        np.mean([spread(parts(LABELS, 8, PartitionSpec(kind="dirichlet", alpha=alpha), seed)) for seed in range(5)])
        for alpha in (0.05, 0.5, 5, 500)
    ]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[0] > 0.6
    assert spreads[-1] < 0.1


def test_the_split_follows_from_the_seed():
    spec = PartitionSpec(kind="dirichlet", alpha=0.3)
    first, again, other = (parts(LABELS, 5, spec, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not all(np.array_equal(one, two) for one, two in zip(first, other, strict=True))


def test_a_peer_holds_its_own_part_and_those_of_the_peers_before_it():
    assert [held_by(peer, 4, 2) for peer in range(4)] == [[0, 3], [1, 0], [2, 1], [3, 2]]
    assert held_by(0, 1, 1) == [0]


@pytest.mark.parametrize(
    ("num_parts", "spec", "message"),
    [
        (0, PartitionSpec(), "600 samples cannot be split into 0 parts; allowed: 1 to 600"),
        (601, PartitionSpec(), "600 samples cannot be split into 601 parts; allowed: 1 to 600"),
        (3, PartitionSpec(replicas=4), "replicas is 4; allowed: 1 to 3, the number of peers"),
    ],
)
def test_splits_that_cannot_be_are_refused_in_one_line(num_parts, spec, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        parts(LABELS, num_parts, spec, seed=0)
