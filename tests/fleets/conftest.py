"""Shared by tests of fleets: what there is of testbeds, and that nothing of them is left."""

import fcntl
import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from paceline.errors import PacelineError
from paceline.fleets.testbed import cgroups, devices, tools
from paceline.fleets.testbed.testbed import build_testbed


def there_is():
    """All namespaces, links and cgroups of testbeds, by their names, and the records of who owns them."""
    namespaces = Path("/var/run/netns").glob("paceline*") if Path("/var/run/netns").exists() else ()
    links = [link["ifname"] for link in json.loads(ask("ip", "-json", "link", "show"))]
    return {
        *(("namespace", path.name) for path in namespaces),
        *(("link", name) for name in links if name.startswith("paceline")),
        *(("cgroup", path.name) for path in cgroups._groups("paceline")),
        *(("record", path.name) for path in tools.RUN.glob("*")),
    }


def ask(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@functools.cache
def hindrance():
    """Why no testbed can be built here, if so."""
    try:
        tools.check()
        with build_testbed([devices.TestbedDevice(name="probe", down_mbit=1)]):
            return None
    except PacelineError as error:
        return str(error)


@pytest.fixture
def needs_root():
    """Wait until no other process tests testbeds; what there is of them afterwards is what the test left."""
    with open(Path(tempfile.gettempdir()) / "paceline-testbed-tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if hindrance():
            if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
                pytest.fail(hindrance())
            pytest.skip(hindrance())
        before = there_is()
        yield
        assert there_is() - before == set()
