"""Fleet files: what they mean, and one line for everything that can be wrong with them."""

import json
import math

import pytest

from paceline.devices.energy import PowerModel
from paceline.devices.lte_cell import Cell
from paceline.errors import ConfigError
from paceline.fleets.devices import in_cell
from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.local import LocalDevice
from paceline.fleets.modelled import VirtualDevice

DEVICE = '[[device]]\nname = "pi"\nsamples_per_second = 100\n'
SPEED = "[[device]]\nname = 'a'\nsamples_per_second = "
STATES = DEVICE + "states = [{{name = 'idle', {}}}]"


@pytest.fixture
def fleet(tmp_path):
    """Load a fleet file of this text."""

    def load(text, kind=VirtualDevice):
        path = tmp_path / "fleet.toml"
        path.write_text(text)
        return load_fleet(path, kind)

    return load


def test_a_fleet_has_devices_of_many_kinds(fleet):
    known = {"count": 3, "samples_per_second": 100, "down_mbit": 20, "up_mbit": 5.5, "latency_ms": 10, "price": 1.5}
    known |= {
        "speed_noise": 0.1,
        "link_noise": 0.2,
        "packet_loss": 0.01,
        "max_shards": 4,
        "cpu_share": 0.5,
        "skips": 0.5,
        "poison_factor": -10.0,
    }
    known |= {"are_states_known": False, "joins_at_seconds": 1, "dies_at_seconds": 20, "returns_at_seconds": 30}
    power = {"busy_watts": 6.0, "idle_watts": 2.5, "joules_per_byte": 2e-4}
    lines = ["[[device]]", 'name = "pi"', *(f"{key} = {json.dumps(value)}" for key, value in known.items())]
    lines += ["[device.power]", *(f"{key} = {value}" for key, value in power.items())]
    lines += ["[[device]]", 'name = "pi-4"', "samples_per_second = {small = 1e4, large = 300}"]
    pi, other = fleet("\n".join(lines))
    assert pi == VirtualDevice(name="pi", power=PowerModel(**power), **known)
    assert other == VirtualDevice(name="pi-4", samples_per_second={"small": 1e4, "large": 300})
    assert other.speed("large") == 300
    with pytest.raises(ConfigError, match=r"^device pi-4: samples_per_second has no speed for job 'huge', only for"):
        other.speed("huge")
    assert (other.down_mbit, other.up_mbit, other.latency_ms) == (math.inf, math.inf, 0)


def test_a_fleet_in_a_cell_has_the_rates_of_the_cell(fleet):
    text = DEVICE + "count = 2\n" + DEVICE.replace("pi", "van") + "distance_metres = 480\n"
    text += DEVICE.replace("pi", "pc") + "down_mbit = 50\nup_mbit = 9\n"
    devices = [VirtualDevice(name="pi", count=2, samples_per_second=100)]
    devices.append(VirtualDevice(name="van", samples_per_second=100, distance_metres=480))
    devices.append(VirtualDevice(name="pc", samples_per_second=100, down_mbit=50, up_mbit=9))
    assert fleet(text + "[cell]\n") == in_cell(Cell(), devices)
    assert fleet(text + "[cell]\nseed = 3\nscheduling = 'equal'") == in_cell(Cell(seed=3, scheduling="equal"), devices)
    assert [device.name for device in fleet(text + "[cell]")] == ["pi-1", "pi-2", "van", "pc"]


def test_processes_of_this_machine_are_devices_too(fleet, tmp_path):
    text = '[[device]]\nname = "pi"\nslowdown = 4\ndown_mbit = 20\ndata = "pi.npz"\ndevice = "cuda:1"\n'
    expected = {"name": "pi", "slowdown": 4, "down_mbit": 20, "data": str(tmp_path / "pi.npz"), "device": "cuda:1"}
    assert fleet(text, LocalDevice) == [LocalDevice(**expected)]
    for given, meant in (("own.py:Data", str(tmp_path / "own.py:Data")), ("own.pets:Data", "own.pets:Data")):
        assert fleet(text.replace("pi.npz", given), LocalDevice)[0].data == meant
    with pytest.raises(ConfigError, match="device 1: slowdown is for paceline run; paceline simulate cannot do it"):
        fleet(DEVICE + "slowdown = 4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no [[device]]; a fleet has at least one"),
        ("[[devices]]", "unknown table 'devices'; did you mean 'device'? Allowed: device"),
        (DEVICE + "distance_metres = 5", "device 1: distance_metres is 5.0, but there is no [cell]"),
        ("cell = 3\n" + DEVICE, "cell is 3; it must be a table, [cell]"),
        (DEVICE + "[cell]\nradius = 5", "[cell]: unknown key 'radius'; did you mean 'radius_metres'? Allowed: sched"),
        (DEVICE + "[cell]\nradius_metres = 0", "[cell]: radius_metres is 0; it must be above 0"),
        (DEVICE + "count = 1001\n[cell]", "[cell]: there are 1001 devices in the cell; proportional-fair scheduling"),
        ("device = [3]", "device 1: 3 must be a table"),
        (DEVICE + "speed = 3", "device 1: unknown key 'speed'; did you mean 'speed_noise'? Allowed: name, "),
        (DEVICE + "[[device]]\nname = 'b'", "device 2: samples_per_second is missing"),
        (STATES.format("probability = 0.5"), "device 1: the probabilities of states ['idle'] add up to 0.5; they must"),
        (STATES.format("probability = 1, sped = 2"), "device 1: states 1: unknown key 'sped'; did you mean 'speed'?"),
        (SPEED + "'fast'", "device 1: samples_per_second is 'fast'; it must be a number or a table"),
        (SPEED + "nan", "device 1: samples_per_second is nan; it must be above 0"),
        (SPEED + "{small = 1, large = -2}", "device 1: samples_per_second large is -2; it must be above 0"),
        (DEVICE + "[device.power]\nbusy_watts = -1", "device 1: power: busy_watts is -1; it must be at least 0"),
        (DEVICE + "count = 0", "device 1: count is 0; it must be at least 1"),
        (DEVICE + "count = 1_000_000_000_000", "there are 1000000000000 devices, by their counts; allowed: 100000"),
        (DEVICE + "packet_loss = 1", "device 1: packet_loss is 1; it must be at least 0 and below 1"),
        (DEVICE + "returns_at_seconds = 3", "device 1: returns_at_seconds needs a dies_at_seconds before it"),
        (DEVICE + "count = 3\n" + DEVICE.replace("pi", "pi-2"), "2 devices are called 'pi-2'; names must differ"),
    ],
)
def test_what_is_wrong_with_a_fleet_is_refused_in_one_line(fleet, tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        fleet(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'fleet.toml'}: {message}")
