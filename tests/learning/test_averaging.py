"""Averaging: one pass over each state, as exact as its numbers; and every kind of state that is of no use."""

import gc
import math
import weakref

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paceline.learning.averaging import AggregationSpec, RunningAverage, UpdateValidator

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def why_unusable(state, like):
    return UpdateValidator(like).why_unusable(state)


def average(*weighted, like=None):
    running = RunningAverage()
    for state, weight in weighted:
        running.add(state, weight)
    return running.result(like or weighted[0][0])


def average_one(*weighted):
    """The same for one tensor."""
    return average(*(({"x": tensor}, weight) for tensor, weight in weighted))["x"]


values = hnp.arrays(np.float32, (5,), elements=st.floats(-(2.0**100), 2.0**100, width=32))


@given(st.lists(st.tuples(values, st.integers(1, 100_000)), min_size=1, max_size=12))
def test_it_is_the_weighted_mean_within_rounding(updates):
    result = average_one(*((torch.from_numpy(x.copy()), weight) for x, weight in updates))
    xs, weights = np.stack([x for x, _ in updates]).astype(np.float64), [weight for _, weight in updates]
    float32 = np.finfo(np.float32)
    rounding = 2 * len(updates) * (float32.eps * np.abs(xs).max(0) + float32.smallest_subnormal)
    assert result.dtype == torch.float32
    assert np.all(np.abs(result.numpy() - np.average(xs, axis=0, weights=weights)) <= rounding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_states_are_neither_changed_nor_kept(dtype):
    running, first, second = RunningAverage(), torch.ones(3, dtype=dtype), torch.full((3,), 5, dtype=dtype)
    running.add({"x": first}, 1)
    running.add({"x": second}, 1)
    assert (first.tolist(), second.tolist()) == ([1] * 3, [5] * 3)
    first.fill_(100)
    second.fill_(100)
    assert running.result({"x": first})["x"].tolist() == [3, 3, 3]
    kept = weakref.ref(first)
    del first
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_every_type_of_float_keeps_its_type(dtype):
    result = average_one((torch.tensor([1, -2], dtype=dtype), 1), (torch.tensor([2, 4], dtype=dtype), 3))
    assert result.dtype == dtype
    assert result.tolist() == [1.75, 2.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_lose_nothing_on_the_way(dtype):
    """A running average in halves would stand still long before."""
    updates = [(torch.tensor([1.0], dtype=dtype), 1)] + [(torch.tensor([2.0], dtype=dtype), 1)] * 1023
    assert average_one(*updates).item() == torch.tensor(2 - 1 / 1024).to(dtype).item()


@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers_are_rounded(dtype):
    result = average_one((torch.tensor([1, 7, 100], dtype=dtype), 1), (torch.tensor([2, 7, 110], dtype=dtype), 2))
    assert result.dtype == dtype
    assert result.tolist() == [2, 7, 107]


LIKE = {
    "w": torch.zeros(2, 3),
    "half": torch.zeros(4, dtype=torch.bfloat16),
    "n": torch.tensor(3),
    "none": torch.zeros(0),
}


def changed(**changes):
    return {name: tensor for name, tensor in (LIKE | changes).items() if tensor is not None}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({}, "parameters ['half', 'n', 'none'] are missing"),
        (changed(w=None), "parameters ['w'] are missing"),
        (changed(extra=torch.zeros(1)), "there are no parameters ['extra']"),
        (changed(w=None, W=torch.zeros(2, 3)), "parameters ['w'] are missing"),
        (changed(w=torch.zeros(3, 2)), "w has shape (3, 2), not (2, 3)"),
        (changed(w=torch.zeros(6)), "w has shape (6,), not (2, 3)"),
        (changed(w=torch.zeros(())), "w has shape (), not (2, 3)"),
        (changed(w=torch.zeros(0)), "w has shape (0,), not (2, 3)"),
        (changed(n=torch.tensor([3])), "n has shape (1,), not ()"),
        (changed(none=torch.zeros(1)), "none has shape (1,), not (0,)"),
        (changed(w=torch.zeros(2, 3, dtype=torch.float64)), "w has type torch.float64, not torch.float32"),
        (changed(w=torch.zeros(2, 3, dtype=torch.int32)), "w has type torch.int32, not torch.float32"),
        (changed(n=torch.tensor(3.0)), "n has type torch.float32, not torch.int64"),
        (changed(half=torch.zeros(4, dtype=torch.float16)), "half has type torch.float16, not torch.bfloat16"),
    ],
)
def test_rubbish_is_told_in_one_line(state, reason):
    assert why_unusable(state, LIKE) == reason


def test_names_of_others_are_told_in_one_line_and_cut():
    told = why_unusable(changed(**{"a\nb" * 100_000: torch.zeros(1)}), LIKE)
    assert told.startswith("there are no parameters ['a\\nba\\nb")
    assert "\n" not in told
    assert len(told) < 200


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_are_found_wherever_they_are(dtype, rubbish):
    for position in range(37):
        tensor = torch.zeros(37, dtype=dtype)
        assert why_unusable({"x": tensor}, {"x": tensor}) is None
        tensor[position] = rubbish
        assert why_unusable({"x": tensor}, {"x": tensor}) == "x holds NaN or infinity"
        assert why_unusable({"x": tensor[position]}, {"x": tensor[0]}) == "x holds NaN or infinity"
        assert why_unusable({"x": tensor.expand(2, 37).t()}, {"x": torch.zeros(37, 2, dtype=dtype)}) is not None


@pytest.mark.parametrize("rubbish", [complex(math.nan, 0), complex(0, math.nan), complex(0, -math.inf)])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_nan_and_infinity_are_found_in_either_part_of_complex_numbers(dtype, rubbish):
    tensor = torch.tensor([1j, rubbish, 2], dtype=dtype)
    assert why_unusable({"x": tensor}, {"x": tensor}) == "x holds NaN or infinity"
    assert why_unusable({"x": tensor.conj()}, {"x": tensor}) == "x holds NaN or infinity"
    assert why_unusable({"x": tensor[:1]}, {"x": tensor[:1]}) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"method": "fedprox"}, "mu is 0.0; fedprox needs one above 0"),
        ({"method": "fedprox", "mu": -1}, "mu is -1.0; fedprox needs one above 0"),
        ({"method": "fedprox", "mu": math.inf}, "mu is inf"),
        ({"method": "fedprox", "mu": math.nan}, "mu is nan"),
        ({"mu": 0.1}, "fedavg has none"),
        ({"mu": math.nan}, "fedavg has none"),
        ({"method": "median"}, "Invalid enum value 'median'"),
        ({"strength": 1}, "unknown field `strength`"),
    ],
)
def test_bad_aggregation_is_refused(fields, reason):
    with pytest.raises(msgspec.ValidationError, match=reason):
        msgspec.convert(fields, AggregationSpec)


@pytest.mark.parametrize(("value", "is_believed"), [(1e6, True), (-1e6, True), (1.1e6, False), (-3e38, False)])
def test_absurd_values_are_not_believed(value, is_believed):
    like = {"w": torch.tensor([0.5, -0.9])}
    reason = why_unusable({"w": torch.tensor([0.0, value])}, like)
    assert (reason is None) == is_believed
    if not is_believed:
        assert "is the limit" in reason
