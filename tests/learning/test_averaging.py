"""Averaging: one pass over each state, as exact as its numbers."""

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paceline.learning.averaging import RunningAverage

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


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
