"""Clipping, noise, and what they promise."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from paceline.learning.privacy import PrivacySpec, clipped, epsilon_of, with_noise
from paceline.learning.privacy.streams import normal


def test_a_large_change_is_scaled_down_and_a_small_one_left_as_it_is():
    change = {"float32": torch.tensor([3.0, 0.0]), "float64": torch.tensor([4.0], dtype=torch.float64)}
    smaller = clipped(change, 1.0)
    assert smaller["float32"].tolist() == pytest.approx([0.6, 0.0])
    assert smaller["float64"].tolist() == pytest.approx([0.8])
    assert clipped(change, 5.0) is change
    assert clipped(change, None) is change


def test_noise_is_normal_and_of_the_deviation():
    drawn = normal(bytes(32), 200_000)
    assert abs(drawn.mean()) < 0.02
    assert drawn.std() == pytest.approx(1, abs=0.02)
    assert np.mean(np.abs(drawn) < 1.96) == pytest.approx(0.95, abs=0.01)
    noisy = with_noise({"float32": torch.zeros(50_001)}, 0.25, random.Random(1))["float32"]
    assert float(noisy.std()) == pytest.approx(0.25, rel=0.03)
    assert noisy.dtype == torch.float32


def test_noise_differs_from_draw_to_draw_and_follows_its_seed():
    zeros = {"float32": torch.zeros(8)}
    rng = random.Random(1)
    first, second = (with_noise(zeros, 1.0, rng)["float32"] for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first, with_noise(zeros, 1.0, random.Random(1))["float32"])


def test_what_each_adds_makes_the_noise_of_the_sum():
    spec = PrivacySpec(secure_aggregation=True, noise_multiplier=1.2, clip_norm=0.5)
    assert spec.noise_norm == pytest.approx(0.6)
    assert spec.noise_of_one(9) * math.sqrt(9) == pytest.approx(0.6)


def test_epsilon_is_that_of_the_gaussian_mechanism():
    """For one round, the exact epsilon of the Gaussian mechanism (Balle and Wang, 2018) is a little below."""

    def delta_of(epsilon: float, z: float) -> float:
        def phi(x: float) -> float:
            return math.erfc(-x / math.sqrt(2)) / 2

        return phi(0.5 / z - epsilon * z) - math.exp(epsilon) * phi(-0.5 / z - epsilon * z)

    epsilon = epsilon_of(1.0, 1, 1e-5)
    assert delta_of(epsilon, 1.0) <= 1e-5
    assert delta_of(0.9 * epsilon, 1.0) > 1e-5
    # Many rounds with much noise are as one with little: sqrt(T) / z is all that counts.
    assert epsilon_of(10.0, 100, 1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of(1.0, 0, 1e-5) == 0.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise_multiplier": 1.0}, "there is no clip_norm"),
        ({"max_epsilon": 3.0}, "noise_multiplier is 0"),
        ({"clip_norm": 0.0}, "clip_norm"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_a_promise_that_cannot_be_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PrivacySpec(**fields)
