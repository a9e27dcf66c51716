"""Shared by all tests: a loop on virtual time, scripts in processes of their own, and no leftovers."""

import os
import subprocess
import sys
import threading

import psutil
import pytest

from paceline.fleets import virtual_loop
from paceline.testing.transports import no_leftover_threads


@pytest.fixture
def run_virtual():
    """Run a coroutine on a clock that jumps to the next event."""
    return virtual_loop.run


@pytest.fixture(autouse=True)
def no_leftovers():
    """A test leaves no thread and no process behind."""
    threads, children = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    yield
    assert no_leftover_threads(threads) == []
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
