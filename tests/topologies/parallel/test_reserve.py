"""Shards that are held back: who gets how many, and that none is left behind."""

import math

import pytest

from paceline.topologies.parallel.reserve import ShardReserve, Taker


def taker(num_shards=10, shard_seconds=1.0, price=1.0):
    return Taker(num_shards=num_shards, num_last=num_shards, shard_seconds=shard_seconds, price=price, began_at=0.0)


def play(reserve, seconds):
    """Let each taker draw whenever it is done, at its true pace; returns when each stopped, and its shards."""
    done_at, taken = {name: 10 * pace for name, pace in seconds.items()}, dict.fromkeys(seconds, 10)
    busy = set(seconds)
    while busy:
        name = min(busy, key=done_at.__getitem__)
        count = reserve.draw(name, done_at[name])
        taken[name] += count
        done_at[name] += count * seconds[name]
        if not count:
            busy.discard(name)
    return done_at, taken


@pytest.mark.parametrize("pace", [1, 2, 3])
def test_all_are_done_at_about_the_same_time(pace):
    reserve = ShardReserve(30, {"a": taker(), "b": taker()}, budget=math.inf, due_seconds=1000)
    done_at, taken = play(reserve, {"a": 1, "b": pace})
    assert reserve.num_left == 0
    assert sum(taken.values()) == 50
    assert abs(done_at["a"] - done_at["b"]) <= 2 * pace


def test_half_of_an_equal_share_of_what_is_left_and_at_least_one():
    reserve = ShardReserve(40, {"a": taker(), "b": taker(shard_seconds=100.0)}, budget=math.inf, due_seconds=1000)
    assert reserve.draw("a", 10.0) == 10
    assert reserve.draw("a", 20.0) == 7
    while reserve.num_left > 1:
        assert reserve.draw("a", 30.0) >= 1
    assert reserve.draw("a", 30.0) == 1
    assert reserve.draw("a", 30.0) == 0


def test_none_for_whom_the_others_would_be_done_before():
    takers = {"fast": taker(shard_seconds=0.1), "slow": taker(shard_seconds=2.0)}
    reserve = ShardReserve(4, takers, budget=math.inf, due_seconds=1000)
    assert reserve.draw("slow", 20.0) == 0
    assert reserve.draw("fast", 20.0) >= 1


def test_none_for_who_would_be_late_and_none_for_strangers():
    reserve = ShardReserve(10, {"a": taker(), "b": taker(shard_seconds=50.0)}, budget=math.inf, due_seconds=10.5)
    assert reserve.draw("a", 10.0) == 0
    assert reserve.draw("stranger", 1.0) == 0
    assert reserve.num_left == 10


def test_never_more_than_can_be_paid():
    takers = {"dear": taker(price=3.0), "cheap": taker(shard_seconds=9.0)}
    reserve = ShardReserve(20, takers, budget=66.0, due_seconds=1000)
    _, taken = play(reserve, {"dear": 1, "cheap": 9})
    assert taken["dear"] * 3 + taken["cheap"] <= 66.0
    assert taken["dear"] > 10
    assert reserve.num_left == 0


def test_nobody_leaves_shards_to_one_who_cannot_be_paid_for_them():
    """The cheap one is slower, but the dear one must not do all that is left, and nobody can be called back."""
    takers = {"dear": taker(price=2.0, shard_seconds=0.1), "cheap": taker(price=1.0, shard_seconds=2.0)}
    reserve = ShardReserve(6, takers, budget=37.0, due_seconds=1000)
    assert reserve.draw("cheap", 20.0) == 1
    assert reserve.draw("dear", 20.0) == 1
    assert reserve.draw("dear", 20.1) == 0
    assert sum(reserve.draw("cheap", 22.0 + 2 * number) for number in range(4)) == 4
    assert reserve.num_left == 0
