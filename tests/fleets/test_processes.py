"""Fleets of processes: what they print is read, whatever it is; options are told as `paceline join` has them."""

import asyncio

import numpy as np
import pytest

from paceline import DataSpec, LocalDevice, LocalFleet, ModelSpec, SplitJob
from paceline.axon.transports import Address
from paceline.devices.energy import PowerModel
from paceline.errors import ConfigError
from paceline.fleets.base import SplitLaunch
from paceline.fleets.processes import Order, _lines, command_for
from paceline.fleets.testbed import devices
from paceline.topologies.split import make_plan


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


def launch_of(**rules):
    return SplitLaunch(
        plan=make_plan(SplitJob(cut="3", model=ModelSpec(name="three-nn"), **rules)), emit=lambda event: None
    )


def test_a_fleet_that_is_too_small_is_refused_at_once():
    fleet = LocalFleet([LocalDevice(name="a"), LocalDevice(name="b")])
    with pytest.raises(ConfigError, match="there are 2 devices on this machine; the job begins with 3"):
        fleet.run(launch_of(sources=3))


def test_a_source_has_the_trunks_file_unless_it_has_one_of_its_own(tmp_path):
    x, y = np.zeros((20, 8, 8), np.uint8), np.arange(20) % 10
    np.savez(tmp_path / "trunk.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    launch, address = launch_of(data=DataSpec(path=str(tmp_path / "trunk.npz"))), Address("127.0.0.1", 1)
    started = ["split", str(address), "--json"]
    viewed = ["--data", str(tmp_path / "trunk.npz"), "--apply-view"]
    assert command_for(Order(options=["--name", "a"]), launch, address) == started + viewed
    assert command_for(Order(options=["--name", "b", "--data", "b.npz"]), launch, address) == started
