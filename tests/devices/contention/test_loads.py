"""Loads work, end with the block, and end when whoever started them is gone."""

import subprocess
import sys
import time

import psutil
import pytest

from paceline.devices.contention import loads
from paceline.devices.contention.loads import IDLE, Load, loads_for, running
from paceline.errors import PacelineError


def children():
    return psutil.Process().children()


@pytest.mark.parametrize("num_cores", [1, 2, 4, 16])
def test_loads_for_a_device_go_from_none_to_more_than_it_has(num_cores):
    found = loads_for(num_cores)
    assert found[0] == IDLE
    assert len({load.name for load in found}) == len(found)
    assert max(load.num_processes for load in found) == 2 * num_cores
    for kind in ("num_processes", "disk_bytes_per_second", "network_bytes_per_second"):
        alone = [load for load in found if getattr(load, kind) and len(load.name.split(" + ")) == 1]
        assert len(alone) >= 3


def test_they_work_and_end_with_the_block():
    load = Load(num_processes=1, disk_bytes_per_second=2e8, network_bytes_per_second=2e8)
    with running(load):
        started = children()
        assert len(started) == 3
        waiting = set(started)
        while waiting:
            time.sleep(0.02)  # leaves them the processor
            waiting = {process for process in waiting if sum(process.cpu_times()[:2]) < 0.05}
    assert not any(process.is_running() for process in started)


def test_they_end_when_the_block_fails():
    def fail():
        with running(Load(num_processes=2)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert children() == []


def test_they_end_when_their_parent_is_killed(spawn):
    source = """
from paceline.devices.contention.loads import Load, running
import psutil, time
with running(Load(num_processes=1, disk_bytes_per_second=1e6, network_bytes_per_second=1e6)):
    print(*[child.pid for child in psutil.Process().children()], flush=True)
    time.sleep(600)
"""
    process = spawn(source)
    started = [psutil.Process(int(number)) for number in process.stdout.readline().split()]
    assert len(started) == 3
    process.kill()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []


def test_one_that_does_not_begin_is_told(monkeypatch, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(loads, "_PROGRAM", broken)

    def start():
        with running(Load(num_processes=1)):
            pytest.fail("it did not begin")

    with pytest.raises(PacelineError, match="the load cpu 1 × 100% could not be started: it ended with 3"):
        start()


def test_the_program_needs_nothing_but_the_standard_library():
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(loads._PROGRAM), "cpu", "0.1"], input=b"", capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"begun\n")
