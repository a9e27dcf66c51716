"""An emulated testbed: links and processors are limited as the file says, cuts are survived, and nothing is left."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from paceline.errors import ConfigError, PacelineError
from paceline.fleets.testbed import cgroups, devices, fleet, tools
from paceline.fleets.testbed.testbed import build_testbed
from paceline.report import RunFolder
from paceline.topologies.parallel.events import DeviceMeasured, RoundOpened, UpdateAccepted
from tests.fleets.conftest import ask, there_is
from tests.topologies.parallel.runs import of

JOB = """
[job]
rounds = 6
deadline_seconds = 1.0
local_epochs = 100
batch_size = 16
min_learners = 2
benchmark_shards = 8
[data]
name = "digits"
shard_size = 16
"""
FLEET = """
[[device]]
name = "steady"
samples_per_second = 2_000
cpu_share = 0.7
down_mbit = 50
up_mbit = 20

[[device]]
name = "cut"
cpu_share = 0.6
down_mbit = 20
up_mbit = 8.5
latency_ms = 2
cut_at_seconds = 2.5
mended_at_seconds = 4.5
"""
PATIENCE_SECONDS = 60


def device(name, **fields):
    return devices.TestbedDevice(name=name, **fields)


def limits(place):
    """What the kernel holds a device to: Mbit/s down and up, share of a core."""
    down, up = (
        [queue["options"]["rate"] * 8 / 1e6 for queue in json.loads(said) if queue["kind"] == "tbf"]
        for said in (
            ask("tc", "-json", "qdisc", "show", "dev", place),
            ask("tc", "-n", place, "-json", "qdisc", "show", "dev", "eth0"),
        )
    )
    (group,) = cgroups._groups(place)
    if (group / "cpu.max").exists():
        quota, period = map(int, (group / "cpu.max").read_text().split())
    else:
        quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return down, up, quota / period


@pytest.fixture
def files():
    """A folder that every user can read, with a job and a fleet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        (path / "job.toml").write_text(JOB)
        (path / "fleet.toml").write_text(FLEET)
        yield path


@pytest.fixture
def testbed(files):
    """Start `paceline testbed`; killed at the end."""
    started = []

    def start(*prefix):
        command = [*prefix, sys.executable, "-m", "paceline", "testbed", "job.toml", "fleet.toml"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([*command, "--folder", "run", "--json"], cwd=files, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def recorded(files):
    return list(RunFolder.open(files / "run").events()) if (files / "run/job.json").exists() else []


def until(is_reached, process):
    """Wait for something to come true while a process runs; returns it."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not (found := is_reached()):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return found


def new_places(before):
    return sorted(name for kind, name in there_is() - before if kind == "namespace")


@pytest.mark.slow
def test_a_run_survives_a_cut_link_and_leaves_nothing(needs_root, testbed, files):
    before = there_is()
    process = testbed()
    until(lambda: of(RoundOpened, recorded(files)), process)
    steady, cut = new_places(before)
    assert limits(steady) == ([50], [20], pytest.approx(0.7, abs=0.001))
    assert limits(cut) == ([20], [8.5], pytest.approx(0.6, abs=0.001))
    learners = {int(text) for place in (steady, cut) for text in ask("ip", "netns", "pids", place).split()}
    assert len(learners) == 2
    assert {pid for pid in learners if "join" in psutil.Process(pid).cmdline()} == learners
    assert {pid for place in (steady, cut) for pid in cgroups.members(place)} == learners

    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["rounds"] == 6
    assert result["accuracy"] > 0.5
    assert (files / result["report"]).exists()
    told = recorded(files)
    in_time = {(event.learner, event.round) for event in of(UpdateAccepted, told)}
    story = "".join("x" if ("cut", number) in in_time else "-" for number in range(1, 7))
    assert re.search("x-+x", story), story  # there, missed, and back
    assert {number for learner, number in in_time if learner == "steady"} >= {story.index("-") + 1}
    assert {event.learner for event in of(DeviceMeasured, told)} == {"steady", "cut"}
    assert not any(map(psutil.pid_exists, learners))
    assert there_is() - before == set()


def test_what_a_killed_testbed_leaves_is_removed_by_the_next(needs_root, testbed, files):
    before = there_is()
    process = testbed()
    places = until(lambda: len(found := new_places(before)) == 2 and found, process)
    learners = until(
        lambda: len(found := cgroups.members(places[0]) | cgroups.members(places[1])) == 2 and found, process
    )
    watched = [psutil.Process(pid) for pid in learners]
    process.kill()
    process.wait()
    psutil.wait_procs(watched, timeout=PATIENCE_SECONDS)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in watched)
    assert {name for kind, name in there_is() - before if kind == "namespace"} == set(places)
    assert ("cgroup", places[0]) in there_is()

    with build_testbed([device("next")]):
        assert {name for kind, name in there_is() - before if kind in ("namespace", "cgroup")} == {places[0]}
    assert there_is() - before == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cleans_up(needs_root, testbed, files, number):
    before = there_is()
    process = testbed()
    places = until(lambda: len(found := new_places(before)) == 2 and found, process)
    until(lambda: cgroups.members(places[1]), process)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert there_is() - before == set()


def test_testbeds_that_live_are_left_alone(needs_root):
    with build_testbed([device("a"), device("b")]) as one:
        of_one = there_is()
        with build_testbed([device("a")]) as other:
            assert other.number != one.number
            assert other.address != one.address
            assert there_is() > of_one
            assert len(there_is() - of_one) == 5  # a bridge, a link, a namespace, a cgroup and a record
        assert there_is() == of_one


def test_links_without_a_limit_have_none(needs_root):
    with build_testbed([device("a"), device("b", up_mbit=0.5)]) as place:
        place.limit(2, 0.01)
        assert limits(f"paceline{place.number}-1")[:2] == ([], [])
        assert limits(f"paceline{place.number}-2") == ([], [0.5], pytest.approx(0.01))


def test_processes_are_on_their_device_and_die_with_their_testbed(needs_root):
    with build_testbed([device("a")]) as place:
        addresses = ask(*place.prefix(1), "ip", "-json", "addr", "show", "dev", "eth0")
        assert place.address.rpartition(".")[0] in addresses
        sleeping = subprocess.Popen([*place.prefix(1), "sleep", "1000"])
        place.adopt(1, sleeping.pid)
        assert cgroups.members(f"paceline{place.number}-") == {sleeping.pid}
    assert sleeping.wait() == -signal.SIGKILL


def test_a_testbed_that_cannot_be_built_is_removed(needs_root):
    before = there_is()
    with (
        pytest.raises(PacelineError, match=r"^tc -n paceline\d+-2 qdisc add dev eth0 root tbf .* failed: \S"),
        build_testbed([device("a"), device("b", up_mbit=1e300)]),
    ):
        pass
    assert there_is() == before


def after(setting_up):
    """Begins a command that runs in a mount namespace of its own, after some shell."""
    return ["unshare", "--mount", "sh", "-c", f'{setting_up} && exec "$@"', "sh"]


WITHOUT_CGROUPS = "umount -l /sys/fs/cgroup"
READ_ONLY = r"""sed -nE 's/^\S+ (\S+) cgroup2? .*/\1/p' /proc/mounts | xargs -n 1 mount -o remount,bind,ro"""
BUILD = """
from paceline.fleets.testbed.testbed import build_testbed
from paceline.fleets.testbed import devices
with build_testbed([devices.TestbedDevice(name="a")]) as place:
    place.limit(1, 0.5)
    print(place._hierarchy.root, sorted(path.name for path in place._hierarchy.root.glob("paceline*")))
"""


@pytest.mark.parametrize("setting_up", [WITHOUT_CGROUPS, READ_ONLY], ids=["none", "read-only"])
def test_cgroups_are_mounted_where_there_are_none_to_write_to(needs_root, setting_up):
    script = [sys.executable, "-c", BUILD]
    done = subprocess.run([*after(setting_up), *script], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert re.fullmatch(r"/run/paceline/cgroups(\d+) \['paceline\1-1'\]\n", done.stdout), done.stderr
    assert done.returncode == 0, done.stderr


def test_no_cgroups_get_one_clear_line(needs_root, testbed, files):
    without_mounting = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    _, err = testbed(*after(WITHOUT_CGROUPS), *without_mounting).communicate(timeout=PATIENCE_SECONDS)
    assert err.splitlines()[-1].startswith("paceline: a testbed needs cgroups with the cpu controller")


AS_NOBODY = [
    *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),  # root's Python may be in root's home
]


def test_without_root_there_is_one_clear_line(needs_root, testbed):
    process = testbed(*AS_NOBODY)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("paceline: a testbed needs root")


def test_a_missing_program_gets_one_clear_line(needs_root, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(tools, "_MORE_PLACES", ())
    with pytest.raises(ConfigError, match="needs the program 'ip', and it is not there: install iproute2"):
        fleet.TestbedFleet([device("a")])


def test_more_than_the_machine_has_is_refused(needs_root):
    num_cores = len(os.sched_getaffinity(0))
    message = f"cpu_share adds up to {num_cores + 0.5:g} over all devices, and this machine has {num_cores} cores"
    with pytest.raises(ConfigError, match=message):
        fleet.TestbedFleet([device("a", cpu_share=num_cores), device("b", cpu_share=0.5)])
    with pytest.raises(ConfigError, match="there are 251 devices; a testbed has 250 at most"):
        fleet.TestbedFleet([device("a", cpu_share=0.01, count=251)])
    assert len(fleet.TestbedFleet([device("a", cpu_share=num_cores / 10, count=10)]).devices) == 10
