"""Every kind of update that is of no use is found, and described in one line."""

import math
import re

import pytest
import torch

from paceline.learning.update_validation import UpdateValidator

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]


def why_unusable(state, like):
    return UpdateValidator(like).why_unusable(state)


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


@pytest.mark.parametrize(("value", "is_believed"), [(1e6, True), (-1e6, True), (1.1e6, False), (-3e38, False)])
def test_absurd_values_are_not_believed(value, is_believed):
    like = {"w": torch.tensor([0.5, -0.9])}
    reason = why_unusable({"w": torch.tensor([0.0, value])}, like)
    assert (reason is None) == is_believed
    if not is_believed:
        assert "is the limit" in reason


def test_the_next_state_is_measured_once_and_shifts_no_limits(monkeypatch):
    aminmax, measured = torch.aminmax, []
    monkeypatch.setattr(torch, "aminmax", lambda tensor: measured.append(tensor) or aminmax(tensor))
    following = UpdateValidator({"w": torch.ones(3)}).following({"w": torch.full((3,), 1e3)})
    assert len(measured) == 2
    assert following.why_unusable({"w": torch.full((3,), 9e5)}) is None
    assert following.why_unusable({"w": torch.full((3,), 2e6)}) is not None  # as at the start, whatever came since


@pytest.mark.parametrize(
    "state", [changed(w=None), changed(w=torch.full((2, 3), math.nan)), changed(w=torch.full((2, 3), 2e6))]
)
def test_a_next_state_that_is_no_use_as_an_update_is_refused(state):
    with pytest.raises(ValueError, match=re.escape(why_unusable(state, LIKE))):
        UpdateValidator(LIKE).following(state)
