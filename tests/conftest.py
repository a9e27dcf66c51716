"""Shared by all tests: one thread each, a loop on virtual time, scripts in processes of their own, and no leftovers."""

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

# Read when PyTorch is loaded, here and in the processes that tests start. Models here are small: with several threads,
# each step would wait for all of them to get a core, and sums would differ with their number.
os.environ["OMP_NUM_THREADS"] = "1"

from paceline.fleets import virtual_loop

gc.disable()  # until tests are collected: most of what is made until then stays


def pytest_collection_finish():
    """Have tests not pay for looking again through a million objects of imports and of other tests."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    """Have Hypothesis, which may be loaded for its summary, see who refers to what again."""
    gc.unfreeze()


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


def processes_below(pid):
    """Find the processes that one has started, and theirs; Linux lists them, so that no other is looked at."""
    try:
        lists = [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
        children = {int(child) for one in lists for child in one.read_text().split()}
    except (FileNotFoundError, ProcessLookupError):  # it has just ended, or the system has no such lists
        is_here = psutil.pid_exists(pid)
        return set(psutil.Process(pid).children(recursive=True)) if is_here else set()
    found = {psutil.Process(child) for child in children if psutil.pid_exists(child)}
    return found.union(*map(processes_below, children))


@pytest.fixture(autouse=True)
def no_leftovers():
    """A test leaves no thread and no process behind."""
    threads, children = set(threading.enumerate()), processes_below(os.getpid())
    yield
    assert leftover_threads(threads) == []
    left = processes_below(os.getpid()) - children
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
