"""Shared by all tests: one thread each, a loop on virtual time, scripts in processes of their own, and no leftovers."""

import os
import subprocess
import sys
import threading
import time

import psutil
import pytest

# Read when PyTorch is loaded, here and in the processes that tests start. Models here are small: with several threads,
# each step would wait for all of them to get a core, and sums would differ with their number.
os.environ["OMP_NUM_THREADS"] = "1"

from paceline.fleets import virtual_loop


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory):
    """Devices keep their key elsewhere than the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def run_virtual():
    """Run a coroutine on a clock that jumps to the next event."""
    return virtual_loop.run


def leftover_threads(before):
    """Threads that were started since and have not ended within five seconds."""
    until = time.monotonic() + 5
    while True:
        left = [one for one in threading.enumerate() if one not in before and one.name != "axon"]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def no_leftovers():
    """A test leaves no thread and no process behind."""
    threads, children = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    yield
    assert leftover_threads(threads) == []
    left = set(psutil.Process().children(recursive=True)) - children
    _, alive = psutil.wait_procs(left, timeout=5)
    assert alive == []


@pytest.fixture
def spawn(tmp_path):
    """Start Python source in a process of its own; killed at the end of the test."""
    processes = []

    def spawn(source, *arguments, name="script.py"):
        path = tmp_path / name
        path.write_text(source)
        process = subprocess.Popen(
            [sys.executable, str(path), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        processes.append(process)
        return process

    yield spawn
    for process in processes:
        process.kill()
        process.communicate()
