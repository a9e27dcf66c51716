"""Fleets of processes: what they print is read, whatever it is; options are told as `paceline join` has them."""

import asyncio

from paceline.devices.energy import PowerModel
from paceline.fleets.local import LocalDevice
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


def test_power_is_told_as_far_as_it_is_given():
    power = PowerModel(busy_watts=6.0, joules_per_byte=2e-4)
    told = ["--busy-watts", "6.0", "--joules-per-byte", "0.0002"]
    assert LocalDevice(name="pi", power=power).options() == ["--name", "pi", *told]
    assert LocalDevice(name="pi").options() == ["--name", "pi"]
    assert devices.TestbedDevice(name="pi", power=power).options() == ["--name", "pi", *told, "--patience", "300.0"]
