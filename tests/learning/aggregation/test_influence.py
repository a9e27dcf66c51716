"""Limits of what one update does to a round: honest updates count in full, whatever they weigh; others do not."""

import pytest
import torch

from paceline.learning.aggregation import FedAvgAggregation, LimitedCollector, MedianAggregation, Update, influence
from paceline.learning.vectors import Layout

START = {"model.weight": torch.zeros(1000), "norm.running_mean": torch.zeros(10), "norm.count": torch.tensor(3)}
BUFFERS = ("norm.running_mean", "norm.count")
LAYOUT = Layout(START)


def change(seed, size=1.0, common=1.0, spread=1.0):
    """A change in a direction that all have in common, and in one of its own."""
    chance = torch.Generator().manual_seed(seed)
    own = torch.randn(1000, generator=chance)
    return size * (common * torch.ones(1000) + spread * own) / 1000**0.5


def update(changed, weight=1.0, num_steps=10.0, buffer=0.0):
    state = {
        "model.weight": changed,
        "norm.running_mean": torch.full((10,), 1.0 + buffer),
        "norm.count": torch.tensor(13),
    }
    return Update(LAYOUT.pack(state), weight, num_steps)


def collect(updates, method=None, **options):
    """Aggregate updates by name; returns the mean change of the weights, and the contributions by name."""
    collector = LimitedCollector(method or FedAvgAggregation(), LAYOUT, BUFFERS, LAYOUT.pack(START), **options)
    for name, one in updates.items():
        collector.add(name, one)
    found = LAYOUT.unpack(collector.finish({}).parameters)
    return found["model.weight"], {one.learner: one for one in collector.contributions}


def honest(count, **options):
    return {f"d{seed}": update(change(seed, **options)) for seed in range(count)}


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_honest_updates_count_in_full_and_give_the_same_bits(spread):
    updates = honest(8, spread=spread)
    mean, found = collect(updates)
    plain, _ = collect(updates, is_limiting=False)
    assert mean.equal(plain)
    assert not any(one.is_limited for one in found.values())


def test_who_trains_for_longer_may_lead_farther():
    """One, two, four and eight times the steps: changes grow with the root of them, or up to in proportion."""
    for power in (0.5, 1.0):
        updates = {
            f"d{seed}": update(change(seed, size=steps**power, spread=0.5), weight=steps, num_steps=10 * steps)
            for seed, steps in enumerate((1.0, 2.0, 4.0, 8.0) * 2)
        }
        _, found = collect(updates)
        assert all(one.part == 1 or (power == 1 and one.weight == 1) for one in found.values())
        assert all(one.counted_weight == one.weight for one in found.values())  # at most 8 / 2, the lower median


def test_a_laptop_that_does_thirteen_times_the_work_counts_ten_times_and_in_full():
    updates = {**honest(3, spread=0.3), "laptop": update(change(9, 3.6, spread=0.3), weight=13.0, num_steps=130.0)}
    _, found = collect(updates)
    assert found["laptop"].counted_weight == 10.0
    assert all(one.part == 1 for one in found.values())


@pytest.mark.parametrize("wrong", [9e5, -10.0, -1.0])
@pytest.mark.parametrize("weight", [1.0, 60.0])
def test_two_of_ten_that_are_wrong_do_not_count_whatever_they_weigh(wrong, weight):
    updates = honest(8, spread=0.3)
    right, _ = collect(updates)
    liars = {f"x{n}": update(wrong * change(20 + n, spread=0.3), weight, 10 * weight) for n in range(2)}
    mean, found = collect({**liars, **updates})
    assert torch.linalg.vector_norm(mean - right) < 0.05
    assert [found[name].part for name in liars] == [0, 0]
    assert not any(found[name].is_limited for name in updates)
    if weight > 1:
        most = 1.0 if wrong < 0 else 10.0  # who leads against the others counts like one of them
        assert {found[name].counted_weight for name in liars} == {most}


def test_an_update_just_beyond_the_limit_is_moved_to_it():
    updates = {**honest(9, common=0.0), "far": update(change(30, size=1.9, common=0.0))}
    _, found = collect(updates)
    far = found["far"]
    assert 1 < far.distance < 2
    assert far.part == pytest.approx(1 / far.distance)


def test_buffers_are_measured_by_themselves():
    updates = {f"d{n}": update(change(40 + n), buffer=0.1 * n) for n in range(6)}
    _, found = collect({**updates, "x": update(change(7), buffer=5.0)})
    assert found["x"].part == 0
    assert all(one.part > 0.5 for name, one in found.items() if name != "x")


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_or_two_updates_none_can_be_told_wrong(count):
    updates = dict(list({"d": update(change(1)), "x": update(-9 * change(2))}.items())[:count])
    _, found = collect(updates)
    assert [one.part for one in found.values()] == [1.0] * count
    assert all(one.distance is None for one in found.values())


def test_a_claim_of_much_data_weighs_no_more_than_ten_small_ones():
    """1,638,400 samples against 500 had 99.97 % of the weight."""
    _, found = collect({"d": update(change(1), 500.0), "x": update(change(2), 1_638_400.0)})
    assert found["x"].counted_weight == 5000.0


def test_limits_can_be_turned_off_and_robust_methods_have_none():
    updates = {**honest(4), "x": update(-50 * change(9), 90.0)}
    for method in (FedAvgAggregation(clip=0, max_weight=0), MedianAggregation()):
        _, found = collect(updates, method)
        assert found == {}
    for name in ("clip", "max_weight"):
        with pytest.raises(ValueError, match=f"{name} is 0.5; allowed: 0 for no limit, or at least 1"):
            FedAvgAggregation(**{name: 0.5})


def test_what_is_beyond_the_memory_is_judged_by_those_before(monkeypatch):
    bytes_of_one = sum(vector.nbytes for vector in update(change(1)).parameters.values())
    monkeypatch.setattr(influence, "MAX_HELD_BYTES", 5 * bytes_of_one)
    updates = {**honest(6, spread=0.3), "x": update(-10 * change(9)), "late": update(change(10, spread=0.3))}
    collector = LimitedCollector(FedAvgAggregation(), LAYOUT, BUFFERS, LAYOUT.pack(START))
    for name, one in updates.items():
        collector.add(name, one)
    found = {one.learner: one.part for one in collector.contributions}
    assert found == {**dict.fromkeys(updates, 1.0), "x": 0.0}
    assert (collector.num_updates, collector.median()) == (8, None)  # none is kept


def test_the_median_of_held_updates_is_there_for_a_round_that_went_wrong():
    collector = LimitedCollector(FedAvgAggregation(), LAYOUT, BUFFERS, LAYOUT.pack(START))
    for name, one in honest(2).items():
        collector.add(name, one)
    assert collector.median() is None
    collector.add("x", update(change(5)))
    middle = torch.stack([one.parameters["float32"] for one in [*honest(2).values(), update(change(5))]]).median(dim=0)
    assert collector.median()["float32"].equal(middle.values)
