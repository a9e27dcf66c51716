"""The FLOPS baseline."""

import math

import pytest

from paceline.devices.flops import measure_flops, predict_training_seconds


def test_a_device_can_multiply():
    assert 0 < measure_flops() < math.inf


def test_training_takes_as_long_as_its_operations():
    assert predict_training_seconds(2e9, 1e6, 500) == pytest.approx(0.25)
    assert predict_training_seconds(2e9, 1e6, 0) == 0
