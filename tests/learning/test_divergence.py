"""How training that diverges is noticed."""

import math

import pytest
import torch

from paceline.errors import DivergedError, PacelineError
from paceline.learning.divergence import LossWatch, are_finite, diverged, has_exploded


@pytest.mark.parametrize(
    ("loss", "lowest", "expected"),
    [
        (2.3, None, False),
        (1e9, None, False),  # of a task whose losses are large, for all that is known
        (math.nan, None, True),
        (math.inf, 2.3, True),
        (9_000.0, 0.001, False),
        (11_000.0, 0.001, True),
        (11_000.0, 500.0, False),
    ],
)
def test_a_loss_has_exploded_if_it_is_no_number_or_far_beyond_the_lowest(loss, lowest, expected):
    assert has_exploded(loss, lowest) == expected


def test_values_are_finite_even_if_their_sum_is_not():
    assert are_finite({"w": torch.full((4,), 3e38), "n": torch.tensor([1]), "none": torch.zeros(0)})
    assert are_finite({"z": torch.zeros(2, dtype=torch.complex64)})
    for value in (math.nan, math.inf, -math.inf):
        assert not are_finite({"w": torch.zeros(3), "v": torch.tensor([1.0, value])})


def test_the_error_says_what_to_try():
    error = diverged("round 3 on pi", "the loss is nan")
    assert isinstance(error, DivergedError)
    assert issubclass(DivergedError, PacelineError)
    assert str(error) == (
        "training diverged in round 3 on pi: the loss is nan; try a lower learning rate (lr), clip the gradients, or "
        "check the data"
    )


@pytest.mark.parametrize(
    ("loss", "is_bad"),
    [
        (0.114, False),  # of wine, after losses of 0.058, 0.039 and 0.072: the accuracy stayed at 97 %
        (0.5, False),
        (0.6, True),  # nearer to 1.1, of a model that has learned nothing
        (math.nan, True),
    ],
)
def test_a_loss_is_bad_if_most_of_what_was_learned_is_lost(loss, is_bad):
    watch = LossWatch(lambda: 1.1, [0.058, 0.039, 0.072])
    assert watch.is_bad(loss, of_start=lambda: pytest.fail("that is for the first round")) == is_bad
    assert watch.is_bad(loss, of_start=lambda: 1.1, is_exploded_only=True) == math.isnan(loss)


def test_without_a_suspicion_nothing_is_computed():
    watch = LossWatch(lambda: pytest.fail("computed"), [2.0, 1.0])
    assert not watch.is_bad(1.9, of_start=lambda: 2.3)


def test_where_nothing_was_learned_nothing_can_be_lost():
    assert not LossWatch(lambda: 0.5, [2.0, 1.0]).is_bad(5.0, of_start=lambda: 0.5)
