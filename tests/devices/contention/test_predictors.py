"""Predictors follow a device, and are not thrown off by one odd epoch."""

import pytest

from paceline.devices.contention import ContentionPredictor, ForeignUsage, RecentPredictor, SlowdownModel
from paceline.errors import ConfigError

HALVES = SlowdownModel(cpu=(1.0, *[0.0] * 7))  # 1/(1 − u): others with half of the processor double the time


class Usages:
    """What others use, to be set."""

    def __init__(self):
        self.now = ForeignUsage()

    def __call__(self):
        return self.now


def test_recent_takes_no_notice_of_one_odd_epoch_and_follows_a_change():
    predictor = RecentPredictor()
    for seconds in (1.0, 1.1, 30.0):
        predictor.observe(100, seconds)
    assert predictor.samples_per_second() == pytest.approx(100 / 1.1)
    predictor.observe(100, 31.0)
    assert predictor.samples_per_second() == pytest.approx(100 / 30)


def test_contention_is_seen_before_an_epoch_is_slow():
    usages = Usages()
    predictor = ContentionPredictor(0.01, HALVES, usages)
    assert predictor.samples_per_second() == pytest.approx(100)
    usages.now = ForeignUsage(cpu_ratio=0.5)
    assert predictor.samples_per_second() == pytest.approx(50)
    usages.now = ForeignUsage(cpu_ratio=0.75)
    assert predictor.samples_per_second() == pytest.approx(25)


def test_contention_is_not_mistaken_for_a_slower_device():
    usages = Usages()
    usages.now = ForeignUsage(cpu_ratio=0.5)
    predictor = ContentionPredictor(0.01, HALVES, usages)
    for _ in range(5):
        predictor.observe(100, 2.0)
    assert predictor.seconds_per_sample_alone == pytest.approx(0.01)
    usages.now = ForeignUsage()
    assert predictor.samples_per_second() == pytest.approx(100)


def test_a_device_that_is_slower_for_good_is_followed():
    predictor = ContentionPredictor(0.01, HALVES, ForeignUsage)
    for _ in range(2):
        predictor.observe(100, 3.0)
    assert predictor.samples_per_second() == pytest.approx(100 / 3)
    predictor.observe(100, 60.0)
    assert predictor.samples_per_second() == pytest.approx(100 / 3)


def test_a_sample_takes_time():
    with pytest.raises(ConfigError, match="seconds_per_sample is -1"):
        ContentionPredictor(-1, HALVES, ForeignUsage)
