"""How training that diverges is noticed."""

import math

import pytest
import torch

from paceline.errors import DivergedError, PacelineError
from paceline.learning.divergence import are_finite, diverged, has_exploded


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
