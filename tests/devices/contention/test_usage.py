"""Usage is what others use, from differences of counters; the real counters of this machine agree with themselves."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from paceline.devices.contention import usage as module
from paceline.devices.contention.usage import Counters, ForeignUsage, SystemReader, usage_between


def test_differences_are_means():
    earlier = Counters(10.0, 100.0, 40.0, 1000, 5000)
    later = Counters(14.0, 108.0, 42.0, 9000, 5400)
    assert usage_between(earlier, later) == ForeignUsage(
        cpu_ratio=0.25, network_bytes_per_second=2000.0, disk_bytes_per_second=100.0
    )


def test_what_cannot_be_is_cut_off():
    earlier = Counters(10.0, 100.0, 40.0, 1000, 5000)
    assert usage_between(earlier, Counters(11.0, 102.0, 39.0, 900, 4000)) == ForeignUsage()
    assert usage_between(earlier, Counters(11.0, 102.0, 45.0, 1000, 5000)) == ForeignUsage(cpu_ratio=1.0)


def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_own_work_is_taken_off():
    read = SystemReader()
    before = read()
    burn(0.2)
    after = read()
    # The system counts in ticks of 10 ms, for each core; others may have worked, but not more than the rest.
    own_seconds = (after.core_seconds - before.core_seconds) - (after.busy_seconds - before.busy_seconds)
    assert own_seconds >= 0.2 - 0.05
    assert usage_between(before, after).cpu_ratio <= 1


CHILD = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); sys.stdin.read()"


@pytest.mark.parametrize("with_children", [True, False])
def test_children_are_taken_off_alive_and_ended_if_they_are_of_ones_own_work(with_children):
    read = SystemReader(with_children=with_children)
    readings = [read()]
    before = own_seconds(with_children)
    child = subprocess.Popen([sys.executable, "-I", "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    readings.append(read())
    alive = own_seconds(with_children)
    child.communicate()
    readings.append(read())
    ended = own_seconds(with_children)
    assert (alive - before > 0.2) == with_children
    assert (ended - before > 0.2) == with_children
    assert all(usage_between(readings[0], reading).cpu_ratio <= 1 for reading in readings[1:])


def own_seconds(with_children):
    """What a reader takes off, by its own way to count."""
    reader = SystemReader(with_children=with_children)
    own = [reader._process, *(reader._process.children(recursive=True) if with_children else ())]
    return sum(map(reader._busy_seconds, own))


def test_own_writes_are_taken_off(tmp_path):
    before = module._disk_bytes(psutil.Process())
    with (tmp_path / "file").open("wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    assert module._disk_bytes(psutil.Process()) - before >= 1 << 20


class Silent:
    """A process that tells nothing."""

    def cpu_times(self):
        raise psutil.NoSuchProcess(1)

    io_counters = cpu_times


def test_what_ended_meanwhile_counts_nothing():
    reader = SystemReader()
    assert reader._busy_seconds(Silent()) == 0
    assert module._disk_bytes(Silent()) == 0
    assert module._disk_bytes(object()) == 0


def test_a_machine_without_disks_and_network(monkeypatch):
    monkeypatch.setattr(module.psutil, "disk_io_counters", lambda: None)
    monkeypatch.setattr(module.psutil, "net_io_counters", lambda: None)
    reading = SystemReader()()
    assert reading.network_bytes == 0
    assert reading.disk_bytes <= 0
