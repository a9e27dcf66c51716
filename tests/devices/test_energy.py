"""Energy: a stated power model over processor time, time and bytes; or what CodeCarbon tells."""

import sys
import time
from types import SimpleNamespace

import pytest

from paceline.devices.energy import (
    GRAMS_CO2_PER_KWH,
    CodeCarbonMeter,
    ModelledMeter,
    PowerModel,
    ProcessMeter,
    grams_co2,
    kwh,
)
from paceline.errors import ConfigError

POWER = PowerModel(busy_watts=4.0, idle_watts=1.0, joules_per_byte=0.5)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class FakeTracker:
    """Has counted so many kWh when it is asked."""

    def __init__(self):
        self.kwh = 0.0
        self.done = []

    def start_task(self):
        self.done.append("start")

    def stop_task(self):
        self.done.append("stop")
        return SimpleNamespace(energy_consumed=self.kwh)

    def stop(self):
        self.done.append("end")


def test_joules_are_the_sum_of_work_time_and_traffic():
    assert POWER.joules(cpu_seconds=3.0, seconds=10.0, num_bytes=6) == 4 * 3 + 10 + 3
    assert PowerModel().joules(cpu_seconds=3.0, seconds=10.0, num_bytes=6) == pytest.approx(0.9 * 3)


def test_joules_in_kwh_and_grams():
    assert kwh(3.6e6) == 1.0
    assert grams_co2(3.6e6) == GRAMS_CO2_PER_KWH == 243.0
    assert grams_co2(1.8e6, grams_per_kwh=345.0) == 172.5


def test_a_modelled_device_uses_what_it_is_told_to():
    clock = Clock()
    meter = ModelledMeter(POWER, clock)
    clock.now += 10
    meter.work(2.0)
    meter.work(1.0)
    assert meter.read(num_bytes=6) == (3.0, 4 * 3 + 10 + 3)
    assert meter.read() == (0.0, 0.0)
    clock.now += 1
    assert meter.read() == (0.0, 1.0)


def test_a_process_is_metered_from_when_the_meter_was_made():
    clock = Clock()
    meter = ProcessMeter(POWER, clock)
    start = time.process_time()
    while time.process_time() < start + 0.3:
        sum(range(1000))
    cpu_seconds, joules = meter.read()
    assert cpu_seconds == pytest.approx(0.3, abs=0.1)  # the system counts in hundredths
    assert joules == pytest.approx(4 * cpu_seconds)
    assert meter.read().cpu_seconds < 0.1


def test_codecarbon_tells_the_energy_of_each_reading_and_the_model_that_of_bytes():
    clock, tracker = Clock(), FakeTracker()
    meter = CodeCarbonMeter(POWER, clock, lambda: tracker)
    tracker.kwh = 2e-6
    clock.now += 10
    assert meter.read(num_bytes=6).joules == pytest.approx(7.2 + 3)
    tracker.kwh = 1e-6
    assert meter.read().joules == pytest.approx(3.6)
    meter.close()
    assert tracker.done == ["start", *("stop", "start") * 3, "end"]
    assert meter.described["source"] == "codecarbon"


def test_a_codecarbon_that_tells_nothing_is_noticed_at_once():
    tracker = FakeTracker()
    tracker.stop_task = lambda: None
    with pytest.raises(ConfigError, match="CodeCarbon cannot measure this machine's energy"):
        CodeCarbonMeter(POWER, Clock(), lambda: tracker)


def test_without_codecarbon_one_line_tells_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with pytest.raises(ConfigError, match=r"^codecarbon is not installed; run pip install 'paceline\[energy\]'$"):
        CodeCarbonMeter(POWER, Clock())
