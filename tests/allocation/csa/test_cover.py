"""Cheapest covers, against dynamic programming over all sums of drops."""

import random

import numpy as np
import pytest

from paceline.allocation.csa.cover import Options, cheapest_cover


def make_options(groups):
    """From a list of (drop, gain) for each group."""
    sizes = [len(group) for group in groups]
    return Options(
        starts=np.cumsum([0, *sizes[:-1]]),
        drops=np.array([drop for group in groups for drop, _ in group]),
        gains=np.array([gain for group in groups for _, gain in group]),
    )


def least_drop(groups, needed):
    best = {0: 0}
    for group in groups:
        reached = {}
        for drop_so_far, gain_so_far in best.items():
            for drop, gain in group:
                total = drop_so_far + drop
                reached[total] = max(reached.get(total, -1), gain_so_far + gain)
        best = reached
    return min(drop for drop, gain in best.items() if gain >= needed)


def draw(chance):
    """Up to forty groups of up to nine options; in a third of the cases gains are nearly in proportion to drops."""
    num_groups, most_drop = chance.randint(1, chance.choice([4, 40])), chance.choice([1, 2, 3, 5, 10, 40])
    most_gain = chance.choice([3, 10, 100, 10**4, 10**12])
    is_proportional = chance.random() < 0.3
    groups = []
    for _ in range(num_groups):
        size = chance.randint(0, min(most_drop, 8))
        drops = sorted(chance.sample(range(1, most_drop + 1), size))
        gains = sorted(chance.sample(range(1, most_gain + size + 1), size))
        if is_proportional:
            gains = [drop * (most_gain + 2) // most_drop + chance.randint(0, 1) for drop in drops]
        options = [(0, 0)]
        for drop, gain in zip(drops, gains, strict=True):
            if gain > options[-1][1]:
                options.append((drop, gain))
        groups.append(options)
    return groups, chance.randint(-1, sum(group[-1][1] for group in groups))


def test_nothing_is_cheaper():
    for seed in range(600):
        groups, needed = draw(random.Random(seed))
        options = make_options(groups)
        cover = cheapest_cover(options, needed)
        assert list(options.groups[cover.chosen]) == list(range(len(groups)))
        assert options.gains[cover.chosen].sum() >= needed
        assert options.drops[cover.chosen].sum() == least_drop(groups, needed), seed
        assert cover.is_best


def test_giving_up_leaves_a_cover_that_is_not_called_the_best():
    """Two of drop 3 gain just enough; one by its gain per drop, the first leads astray."""
    groups = [[(0, 0), (4, 401)], [(0, 0), (3, 300)], [(0, 0), (3, 300)], [(0, 0), (3, 299)]]
    best, hasty = cheapest_cover(make_options(groups), 600), cheapest_cover(make_options(groups), 600, max_steps=0)
    drops, gains = make_options(groups).drops, make_options(groups).gains
    assert (drops[best.chosen].sum(), best.is_best) == (6, True)
    assert gains[hasty.chosen].sum() >= 600
    assert not hasty.is_best


@pytest.mark.parametrize("num_groups", [1, 1000])
def test_alike_groups(num_groups):
    groups = [[(0, 0), (1, 10), (2, 20)]] * num_groups
    options = make_options(groups)
    cover = cheapest_cover(options, 10 * num_groups - 5)
    assert (options.drops[cover.chosen].sum(), cover.is_best) == (num_groups, True)
