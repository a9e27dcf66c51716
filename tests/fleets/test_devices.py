"""Devices of a fleet file: in a cell, or with links of their own."""

import pytest

from paceline.devices.energy import PowerModel
from paceline.devices.lte_cell import Cell, rates
from paceline.errors import ConfigError
from paceline.fleets.devices import in_cell
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet


def device(name, **fields):
    return VirtualDevice(name=name, samples_per_second=100, **fields)


@pytest.mark.parametrize(("fleet", "kind"), [(VirtualFleet, device), (LocalFleet, lambda name: LocalDevice(name=name))])
def test_devices_of_a_fleet_have_different_names(fleet, kind):
    with pytest.raises(ConfigError, match=r"^2 devices are called 'pi'; names must differ$"):
        fleet([kind("pi"), kind("nano"), kind("pi")])


def test_devices_share_the_cell_each_at_its_own_place():
    cell = Cell(seed=2)
    near, wired, *others = in_cell(
        cell, [device("near", distance_metres=20), device("wired", down_mbit=50, up_mbit=9), device("pi", count=3)]
    )
    assert wired == device("wired", down_mbit=50, up_mbit=9)
    assert [other.name for other in others] == ["pi-1", "pi-2", "pi-3"]
    assert [other.distance_metres for other in others] == [cell.place(other.name) for other in others]
    inside = [near, *others]
    expected = rates(cell, [each.distance_metres for each in inside])  # the wired one takes no share
    assert [(each.down_mbit, each.up_mbit) for each in inside] == expected
    assert all(each.count == 1 for each in inside)


def test_what_else_is_said_of_a_device_is_kept():
    (placed,) = in_cell(Cell(), [device("pi", latency_ms=20, packet_loss=0.1, price=2, joins_at_seconds=3)])
    assert (placed.latency_ms, placed.packet_loss, placed.price, placed.joins_at_seconds) == (20, 0.1, 2, 3)
    assert placed.link(0).down_bytes_per_second == pytest.approx(placed.down_mbit * 125_000)


def test_a_place_does_not_depend_on_who_else_is_there():
    (alone,) = in_cell(Cell(), [device("pi")])
    _, beside = in_cell(Cell(), [device("jetson"), device("pi")])
    assert alone.distance_metres == beside.distance_metres
    assert alone.down_mbit > 1.5 * beside.down_mbit


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"down_mbit": 5}, "device pi: in a cell, it has down_mbit and up_mbit both or neither"),
        ({"down_mbit": 5, "up_mbit": 5, "distance_metres": 3}, "either rates or distance_metres in the cell, not both"),
        ({"distance_metres": 1e7}, "a device 1e.07 m away is out of the cell's reach"),
    ],
)
def test_what_does_not_fit_a_cell_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        in_cell(Cell(), [device("pi", **fields)])


@pytest.mark.parametrize("given", [2, "pi", {"name": "pi"}], ids=str)
def test_devices_are_a_list(given):
    with pytest.raises(ConfigError, match="^devices is .*; it must be a list$"):
        VirtualFleet(given)


def test_a_distance_needs_a_cell():
    with pytest.raises(ConfigError, match="device pi: distance_metres is given, but there is no cell for it to be in"):
        VirtualFleet([device("pi", distance_metres=30)])
    VirtualFleet(in_cell(Cell(), [device("pi", distance_metres=30)]))


def test_devices_compute_on_what_they_or_their_fleet_say():
    given = [LocalDevice(name="own", device="cpu"), LocalDevice(name="pi", count=2)]
    own, *others = LocalFleet(given, device="auto").devices
    assert (own.device, [other.device for other in others]) == ("cpu", ["auto"] * 2)
    assert own.options()[:4] == ["--name", "own", "--device", "cpu"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LocalFleet([LocalDevice(name="pi")], device="cuda:77"),
        lambda: LocalFleet([LocalDevice(name="pi", device="cuda:77")]),
        lambda: VirtualFleet([device("pi")], device="cuda:77"),
    ],
)
def test_a_fleet_of_this_machine_needs_what_it_is_to_compute_on(make):
    with pytest.raises(ConfigError, match="^device cuda:77 is not available on this machine; there are: cpu"):
        make()


def test_devices_may_be_tables_as_in_a_file():
    table = {"name": "pi", "count": 2, "samples_per_second": 3, "power": {"idle_watts": 1}}
    assert [one.name for one in VirtualFleet([table]).devices] == ["pi-1", "pi-2"]
    assert VirtualFleet([table]).devices[0].power == PowerModel(idle_watts=1)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([LocalDevice(name="pi")], r"devices 1 is LocalDevice\(.*; it must be a table, or a VirtualDevice"),
        ([device("pi"), {"name": "b"}], "devices 2: samples_per_second is missing"),
        (["pi"], "devices 1 is 'pi'; it must be a table, or a VirtualDevice"),
    ],
)
def test_a_fleet_takes_its_own_kind_of_devices(devices, message):
    with pytest.raises(ConfigError, match=message):
        VirtualFleet(devices)
