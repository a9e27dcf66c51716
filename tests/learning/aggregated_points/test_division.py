"""Divisions: every sample gets a set, as many sets as were asked for, and hashing that is even."""

import numpy as np
import pytest

from paceline.learning.aggregated_points import DIVISIONS, division
from paceline.learning.aggregated_points.division import k_means, lsh


def features(num=200, size=3, seed=0):
    return np.random.default_rng(seed).normal(size=(num, size)).astype(np.float32)


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("num_sets", [2, 7, 50, 200])
def test_every_sample_gets_one_of_so_many_sets(name, num_sets):
    sets = DIVISIONS[name](features(), num_sets, np.random.default_rng(0))
    assert sets.shape == (200,)
    assert 0 <= sets.min() <= sets.max() < num_sets
    assert len(np.unique(sets)) >= 0.8 * num_sets


@pytest.mark.parametrize("num_sets", [2, 3, 7, 13, 64, 100])
def test_buckets_of_lsh_are_even_and_none_is_empty(num_sets):
    sizes = np.bincount(lsh(features(num=201), num_sets, np.random.default_rng(0)), minlength=num_sets)
    assert len(sizes) == num_sets
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= np.log2(num_sets) + 1


def spread(values, sets):
    """What is left of the variance within sets, as a ratio."""
    within = sum(np.square(values[sets == one] - values[sets == one].mean(0)).sum() for one in np.unique(sets))
    return within / np.square(values - values.mean(0)).sum()


def test_a_large_class_in_parts_is_divided_about_as_well(monkeypatch):
    values = features(num=2000, size=4)
    whole = k_means(values, 200, np.random.default_rng(0))
    monkeypatch.setattr(division, "_MAX_TOGETHER", 500)
    in_parts = k_means(values, 200, np.random.default_rng(0))
    assert 190 <= len(np.unique(in_parts)) <= 210
    assert spread(values, in_parts) < 1.1 * spread(values, whole)
