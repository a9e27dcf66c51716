"""Fleets of processes: what they print is read, whatever it is; devices are written as `paceline join` has them."""

import asyncio

import pytest

from paceline import LocalDevice, LocalFleet, ModelSpec, SplitJob, train
from paceline.devices.energy import PowerModel
from paceline.errors import ConfigError
from paceline.fleets.processes import _lines
from paceline.fleets.testbed import devices


def test_lines_that_are_too_long_are_dropped_and_reading_goes_on():
    async def main():
        stream = asyncio.StreamReader(limit=64)
        for content in (b"first\n", b"x" * 100 + b"\n", b"y" * 50, b"y" * 50 + b"\nlast\n"):
            stream.feed_data(content)
        stream.feed_eof()
        return [line async for line in _lines(stream)]

    found = asyncio.run(main())
    assert found[0] == b"first\n"
    assert found[-1] == b"last\n"
    assert all(len(line) <= 65 for line in found)


@pytest.mark.parametrize(("kind", "patience"), [(LocalDevice, "10.0"), (devices.TestbedDevice, "300.0")])
def test_what_is_given_is_written_as_options(kind, patience):
    power = PowerModel(busy_watts=6.0, joules_per_byte=2e-4)
    given = ["--emulate", "latency_ms=4.0", "--energy", "busy_watts=6.0,joules_per_byte=0.0002"]
    patient = ["--patience", patience]
    assert kind(name="pi", latency_ms=4.0, power=power).options() == ["--name", "pi", *given, *patient]
    assert kind(name="pi").options() == ["--name", "pi", *patient]


def test_a_fleet_that_is_too_small_is_refused_at_once(tmp_path):
    fleet = LocalFleet([LocalDevice(name="device", count=2)])
    with pytest.raises(ConfigError, match="the fleet has 2 devices; the job needs 3 to begin"):
        train(SplitJob(cut="3", model=ModelSpec(name="three-nn"), sources=3), fleet, folder=tmp_path / "run")
