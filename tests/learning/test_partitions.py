"""Partitions: every sample in one part, even or uneven as asked, and copies with the next peers."""

import re

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.datasets import DataSpec
from paceline.learning.partitions import PartitionSpec, held_by, parts, split

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10, dtype=np.uint8), 60))


def spread(split, labels=LABELS):
    """How far the parts' shares of each class are from equal ones: the mean total variation."""
    whole = np.bincount(labels, minlength=10) / len(labels)
    shares = [np.bincount(labels[part], minlength=10) / len(part) for part in split]
    return float(np.mean([np.abs(share - whole).sum() / 2 for share in shares]))


@pytest.mark.parametrize(
    "spec",
    [
        PartitionSpec(),
        *(PartitionSpec(kind="dirichlet", alpha=a) for a in (1e-9, 0.1, 100)),
        *(PartitionSpec(kind="quantity", size_skew=s) for s in (0, 1, 10)),
        PartitionSpec(kind="classes", classes_per_device=10),
    ],
)
@pytest.mark.parametrize("num_parts", [1, 2, 7, 60])
def test_every_sample_is_in_one_part(spec, num_parts):
    split = parts(LABELS, num_parts, spec, seed=3)
    assert len(split) == num_parts
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(len(LABELS)))
    assert min(map(len, split)) >= 8


@pytest.mark.parametrize(("num_parts", "each"), [(10, 1), (5, 2), (60, 2), (7, 3), (1, 10)])
def test_devices_have_so_many_classes_and_classes_about_as_many_devices(num_parts, each):
    split = parts(LABELS, num_parts, PartitionSpec(kind="classes", classes_per_device=each), seed=4)
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(len(LABELS)))
    classes = [set(LABELS[part].tolist()) for part in split]
    assert {len(one) for one in classes} == {each}
    holders = np.bincount([label for one in classes for label in one], minlength=10)
    assert holders.max() - holders.min() <= 1
    assert min(map(len, split)) >= 8


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_sizes_fall_by_rank(skew):
    sizes = sorted(map(len, parts(LABELS, 5, PartitionSpec(kind="quantity", size_skew=skew), seed=1)), reverse=True)
    weights = 1 / np.arange(1, 6) ** skew
    assert sizes == pytest.approx(600 * weights / weights.sum(), abs=1)


@pytest.mark.parametrize("keys", [np.arange(600) % 13, np.array([f"user {n % 13}" for n in range(600)])])
def test_groups_stay_together_and_parts_are_about_equal(keys):
    split = parts(keys, 4, PartitionSpec(kind="key"), seed=5)
    assert np.array_equal(np.sort(np.concatenate(split)), np.arange(600))
    groups = [set(keys[part].tolist()) for part in split]
    assert sum(map(len, groups)) == 13  # none is in two parts
    assert max(map(len, split)) - min(map(len, split)) <= 47  # a group
    assert split[0].tolist() != sorted(split[0].tolist())


def test_groups_come_from_the_data_file(tmp_path):
    def file_with(**arrays):
        x, y = np.zeros((40, 3), np.float32), np.arange(40) % 2
        np.savez(tmp_path / "mine.npz", **{"x_train": x, "y_train": y, "x_test": x, "y_test": y, **arrays})
        return DataSpec(path=str(tmp_path / "mine.npz"))

    def split_among(data):
        return split(datasets.load(data), data, 2, PartitionSpec(kind="key"), 0)

    keys = np.repeat([7, 9], 20)
    assert sorted({*keys[part]} for part in split_among(file_with(key_train=keys))) == [{7}, {9}]
    with pytest.raises(ConfigError, match="it needs an .npz file with the array key_train"):
        split_among(DataSpec(name="digits"))
    with pytest.raises(ConfigError, match="lacks key_train"):
        split_among(file_with())
    for wrong in (keys[1:], keys / 2, keys.reshape(20, 2)):
        with pytest.raises(ConfigError, match="one for each of 40 samples"):
            split_among(file_with(key_train=wrong))


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
        (3, PartitionSpec(replicas=4), "replicas is 4; allowed: 1 to 3, the number of peers"),
        (4, PartitionSpec(kind="classes"), "classes_per_device is 2; allowed for 10 classes and 4 devices: 3 to 10"),
        (
            *(60, PartitionSpec(kind="classes", classes_per_device=11)),
            "classes_per_device is 11; allowed for 10 classes and 60 devices: 1 to 10",
        ),
        (11, PartitionSpec(kind="key"), "key_train has 10 groups; they cannot be split into 11 parts"),
    ],
)
def test_splits_that_cannot_be_are_refused_in_one_line(num_parts, spec, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        parts(LABELS, num_parts, spec, seed=0)


def test_more_parts_than_samples_are_refused_by_the_name_of_the_data():
    spec = DataSpec(name="digits")
    with pytest.raises(ConfigError, match="^1438 samples of digits are too few for 1439 devices$"):
        split(datasets.load(spec), spec, 1439, PartitionSpec(), 0)


@pytest.mark.parametrize(
    ("values", "spec", "message"),
    [
        (np.array([0] * 50 + [1]), PartitionSpec(kind="key"), "one of 2 parts would have 1 samples, and each needs"),
        (LABELS / 3, PartitionSpec(kind="dirichlet"), "kind is dirichlet: it needs a class for each sample, and these"),
        (
            LABELS[:, None],
            PartitionSpec(kind="classes"),
            "labels are uint8 of shape (600, 1); use iid, quantity or key",
        ),
    ],
)
def test_values_that_do_not_fit_a_kind_are_refused(values, spec, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parts(values, 2, spec, seed=0)
