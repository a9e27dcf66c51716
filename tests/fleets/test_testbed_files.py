"""What testbeds read and write: fleet files, numbers that they claim, shares of the processor. Needs no root."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from paceline import VirtualDevice
from paceline.cli import main
from paceline.errors import ConfigError, PacelineError
from paceline.fleets.devices import singles
from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.testbed import cgroups, devices, numbering


def load(tmp_path, text, kind=devices.TestbedDevice):
    (tmp_path / "fleet.toml").write_text(text)
    return load_fleet(tmp_path / "fleet.toml", kind)


def test_a_fleet_file_is_for_simulate_and_testbed(tmp_path):
    common = '[[device]]\nname = "pi"\ncount = 2\nsamples_per_second = 9\nspeed_noise = 0.1\nlink_noise = 0.1\n'
    text = common + "cpu_share = 0.5\nmax_shards = 3\ndown_mbit = 2\nup_mbit = 1\nlatency_ms = 4\n"
    expected = {"name": "pi", "count": 2, "cpu_share": 0.5, "max_shards": 3}
    expected |= {"down_mbit": 2, "up_mbit": 1, "latency_ms": 4}
    (emulated,) = load(tmp_path, text)
    assert emulated == devices.TestbedDevice(**expected)
    (simulated,) = load(tmp_path, text, VirtualDevice)
    assert {name: value for name, value in msgspec.structs.asdict(simulated).items() if name in expected} == expected


def test_in_a_cell_both_have_the_same_rates(tmp_path):
    text = '[cell]\n[[device]]\nname = "pi"\ncount = 2\nsamples_per_second = 9\n'
    emulated, simulated = load(tmp_path, text), load(tmp_path, text, VirtualDevice)
    rates = [(each.name, each.distance_metres, each.down_mbit, each.up_mbit) for each in simulated]
    assert [(each.name, each.distance_metres, each.down_mbit, each.up_mbit) for each in emulated] == rates
    assert all(0 < each.up_mbit < each.down_mbit < 200 for each in emulated)


DEVICE = '[[device]]\nname = "pi"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DEVICE + "cpu_share = 0.001", "device 1: cpu_share is 0.001; allowed: 0.01 to 1e+06"),
        (DEVICE + "cut_at_seconds = -1", "device 1: cut_at_seconds is -1; it must be at least 0"),
        (DEVICE + "mended_at_seconds = 3", "device 1: mended_at_seconds needs a cut_at_seconds before it"),
        (DEVICE + "packet_loss = 0.1", "device 1: packet_loss is for paceline simulate; paceline testbed cannot do it"),
    ],
)
def test_a_bad_fleet_file_gets_one_clear_line(tmp_path, text, told):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/fleet.toml: {told}")
    assert "\n" not in str(caught.value)


def test_what_only_a_testbed_can_do_is_not_simulated(tmp_path):
    text = DEVICE + "samples_per_second = 3\ncut_at_seconds = 4"
    load(tmp_path, text)
    with pytest.raises(ConfigError, match="cut_at_seconds is for paceline testbed; paceline simulate cannot do it"):
        load(tmp_path, text, VirtualDevice)


def test_patience_outlasts_a_cut():
    patient = devices.TestbedDevice(name="a", cut_at_seconds=100, mended_at_seconds=500)
    assert patient.options()[-2:] == ["--patience", "700.0"]


def test_numbers_are_claimed_by_the_living_only(tmp_path):
    removed = []
    (tmp_path / "testbed7").touch()  # its owner is dead: nobody has locked it
    with numbering.claimed(tmp_path, removed.append) as one:
        assert (one, removed) == (0, [7])
        with numbering.claimed(tmp_path, removed.append) as other:
            assert other == 1
        assert removed == [7, 1]
    assert removed == [7, 1, 0]
    with pytest.raises(ZeroDivisionError), numbering.claimed(tmp_path, removed.append):
        raise ZeroDivisionError
    assert removed == [7, 1, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_shares_are_told_to_cgroups_of_version_2(tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text("memory pids")
    hierarchy = cgroups.Hierarchy(tmp_path, 2)
    hierarchy.make(["a"])
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    for share, written in ((0.25, "5000 20000"), (0.01, "1000 100000"), (1.5, "30000 20000")):
        hierarchy.limit("a", share)
        assert (tmp_path / "a/cpu.max").read_text() == written
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(PacelineError, match="5000 20000 cannot be written to .*/a/cpu.max: No such file"):
        hierarchy.limit("a", 0.25)


EXAMPLES = Path(__file__).parents[2] / "examples/testbed"


@pytest.mark.parametrize("name", ["four-jetsons", "pi1-jetson", "pi1-pi2-pi3-jetson", "ten-jetsons"])
def test_example_clusters_fit_on_two_cores_and_can_be_simulated(name, tmp_path, capsys):
    emulated = singles(devices.TestbedDevice, load_fleet(EXAMPLES / f"{name}.toml", devices.TestbedDevice))
    assert sum(device.cpu_share for device in emulated) < 1.75  # the rest is for the orchestrator
    files = (str(EXAMPLES / "digits.toml"), str(EXAMPLES / f"{name}.toml"))
    with pytest.raises(SystemExit) as exit:
        main(["simulate", *files, "--time-only", "--folder", str(tmp_path / "run"), "--json"])
    assert exit.value.code == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rounds"] == 8
    assert result["truancy_max"] <= 0
