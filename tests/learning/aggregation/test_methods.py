"""Each method computes what its paper says, and the robust ones are not led astray."""

import gc
import weakref

import pytest
import torch

from paceline.learning.aggregation import (
    AGGREGATIONS,
    FedAdamAggregation,
    FedAvgAggregation,
    FedAvgMAggregation,
    FedNovaAggregation,
    FedYogiAggregation,
    KrumAggregation,
    MedianAggregation,
    MultiKrumAggregation,
    TrimmedMeanAggregation,
    Update,
)
from paceline.learning.aggregation.staleness import discount, rebased
from paceline.learning.vectors import Layout
from paceline.testing import aggregation as contract

START = {"w": torch.tensor([1.0, 1.0])}


def update(*values, weight=1.0, num_steps=1.0):
    return Update({"w": torch.tensor(values)}, weight, num_steps)


def result(method, updates, memory=None):
    parameters, remembered = contract.aggregate(method, updates, start=START, memory=memory)
    return parameters["w"].tolist(), remembered


def test_fednova_undoes_what_more_steps_do():
    """Learners with the same change per step move the model by it, times the mean number of steps."""
    updates = [update(1.0 + 0.1 * steps, 1.0, weight=weight, num_steps=steps) for steps, weight in ((1, 3), (9, 1))]
    mean_steps = (3 * 1 + 1 * 9) / 4
    assert result(FedNovaAggregation(), updates)[0] == pytest.approx([1 + 0.1 * mean_steps, 1.0])
    opposite = [update(1.1, 1.0, num_steps=1), update(1.0, 1.9, num_steps=9)]  # 0.1 per step each, unlike FedAvg
    assert result(FedNovaAggregation(), opposite)[0] == pytest.approx([1.25, 1.25])
    assert result(FedAvgAggregation(), opposite)[0] == pytest.approx([1.05, 1.45])


def test_fednova_is_fedavg_where_all_do_as_many_steps():
    updates = [update(2.0, 0.0, weight=3.0, num_steps=7), update(0.0, 1.0, weight=1.0, num_steps=7)]
    assert result(FedNovaAggregation(), updates)[0] == pytest.approx(result(FedAvgAggregation(), updates)[0])


def test_momentum_repeats_the_last_step():
    method = FedAvgMAggregation(momentum=0.5, lr=0.1)
    first, memory = result(method, [update(2.0, 1.0)])
    second, _ = result(method, [update(2.0, 1.0)], memory)
    assert (first, second) == (pytest.approx([1.1, 1.0]), pytest.approx([1.15, 1.0]))
    plain = FedAvgMAggregation(momentum=0.0)
    assert result(plain, [update(3.0, 0.0)])[0] == pytest.approx([3.0, 0.0])


@pytest.mark.parametrize(
    ("kind", "square"), [(FedAdamAggregation, 0.99 * 1e-6 + 0.01 * 0.25), (FedYogiAggregation, 1e-6 + 0.01 * 0.25)]
)
def test_adaptive_steps_are_those_of_algorithm_2(kind, square):
    (found, _), memory = result(kind(lr=0.1), [update(1.5, 1.0)])
    assert memory["mean.w"].tolist() == pytest.approx([0.05, 0.0])
    assert memory["square.w"][0].item() == pytest.approx(square)
    assert found == pytest.approx(1 + 0.1 * 0.05 / (square**0.5 + 1e-3))


def test_yogi_forgets_large_changes_slowly():
    memory = {"mean.w": torch.zeros(2), "square.w": torch.ones(2)}
    _, adam = result(FedAdamAggregation(), [update(1.1, 1.0)], memory)
    _, yogi = result(FedYogiAggregation(), [update(1.1, 1.0)], memory)
    assert adam["square.w"][0] < yogi["square.w"][0] < 1


@pytest.mark.parametrize(("values", "expected"), [([5.0], 5.0), ([1.0, 4.0], 2.5), ([9.0, 1.0, 3.0], 3.0)])
def test_the_median_is_in_the_middle(values, expected):
    assert result(MedianAggregation(), [update(one, -one) for one in values])[0] == [expected, -expected]


@pytest.mark.parametrize(("trim", "num_cut"), [(0.0, 0), (0.1, 1), (0.29, 2), (0.3, 3), (0.49, 4)])
def test_so_many_are_cut_at_either_end(trim, num_cut):
    values = [float(2**number) for number in range(10)]
    kept = values[num_cut : 10 - num_cut]
    found, _ = result(TrimmedMeanAggregation(trim=trim), [update(one, 0.0) for one in values])
    assert found == pytest.approx([sum(kept) / len(kept), 0.0])


def test_krum_takes_one_of_the_crowd_and_multi_krum_their_mean():
    crowd = [update(1.0, 0.0), update(1.1, 0.0), update(1.2, 0.0), update(1.1, 0.3), update(1.1, -0.3)]
    wrong = [update(-50.0, 9.0), update(40.0, 40.0)]
    assert result(KrumAggregation(num_byzantine=2), [*wrong, *crowd])[0] == pytest.approx([1.1, 0.0])
    assert result(MultiKrumAggregation(num_byzantine=2), [*wrong, *crowd])[0] == pytest.approx([1.1, 0.0])


ROBUST = [MedianAggregation(), TrimmedMeanAggregation(), KrumAggregation(num_byzantine=2)]


@pytest.mark.parametrize("method", [*ROBUST, MultiKrumAggregation(num_byzantine=2)], ids=repr)
@pytest.mark.parametrize("factor", [-1.0, -10.0, 1e4])
def test_two_wrong_updates_of_ten_change_little(method, factor):
    """Whatever they say, the result stays among the honest ones; that of an average does not."""
    honest = contract.make_updates(8, size=0.01)
    wrong = [
        one._replace(parameters={name: (value * factor).to(value.dtype) for name, value in one.parameters.items()})
        for one in contract.make_updates(2, size=0.01)
    ]
    values = torch.stack([one.parameters["layer.weight"] for one in honest])
    found = contract.aggregate(method, [*wrong, *honest]).parameters["layer.weight"]
    assert ((found >= values.amin(0)) & (found <= values.amax(0))).all()
    average = contract.aggregate(FedAvgAggregation(), [*wrong, *honest]).parameters["layer.weight"]
    assert not ((average >= values.amin(0)) & (average <= values.amax(0))).all()


@pytest.mark.parametrize("method", [*ROBUST, FedAvgAggregation()], ids=repr)
def test_complex_and_whole_numbers_are_aggregated_too(method):
    start = {"z": torch.zeros(2, dtype=torch.complex64), "n": torch.tensor(0), "is": torch.tensor([True])}
    sent = {"z": torch.tensor([1 + 2j, -3j]), "n": torch.tensor(5), "is": torch.tensor([True])}
    found = contract.aggregate(method, [Update(sent, 1.0, 1.0)] * 3, start=start).parameters
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in sent.items()
    }
    assert {name: tensor.dtype for name, tensor in found.items()} == {
        name: tensor.dtype for name, tensor in sent.items()
    }


@pytest.mark.parametrize("name", AGGREGATIONS.members)
def test_means_keep_no_update(name):
    """Only robust methods do: an orchestrator may be small, and its learners many."""
    kind = AGGREGATIONS.find(name)
    collector = (kind(mu=1.0) if name == "fedprox" else kind()).collector(Layout(START))
    vectors = {"float32": torch.ones(2)}
    kept = weakref.ref(vectors["float32"])
    collector.add(Update(vectors, 1.0, 1.0))
    del vectors
    gc.collect()
    assert (kept() is not None) == (name in ("median", "trimmed-mean", "krum", "multi-krum"))


def test_a_late_change_is_moved_to_the_new_start():
    old, new = (
        {"float32": torch.tensor([1.0, 2.0]), "int64": torch.tensor([3])},
        {"float32": torch.tensor([10.0, 20.0]), "int64": torch.tensor([30])},
    )
    sent = {"float32": torch.tensor([2.0, 0.0]), "int64": torch.tensor([7])}
    moved = rebased(sent, old, new, 0.5)
    assert (moved["float32"].tolist(), moved["int64"].tolist()) == ([10.5, 19.0], [32])
    assert (discount(1, 0.5), discount(3, 0.5), discount(3, 0.0)) == (pytest.approx(0.5**0.5), 0.5, 1.0)
