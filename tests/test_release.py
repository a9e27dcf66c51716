"""The locks of a release name what the project's own set-up installs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline.config import tomllib

PROJECT = Path(__file__).parents[1]
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def pins(path: Path) -> dict[str, set[str]]:
    """The releases of each package that a file pins; several where they depend on Python's."""
    pinned: dict[str, set[str]] = {}
    for name, release in PIN.findall(path.read_text()):
        pinned.setdefault(name.lower().replace("_", "-"), set()).add(release)
    return pinned


@pytest.mark.parametrize("lock", ["paceline.txt", "torch.txt"])
def test_every_locked_file_has_its_hash(lock):
    text = (PROJECT / "release" / lock).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", line) for line in lines)


@pytest.mark.parametrize("lock", ["paceline.txt", "torch.txt"])
def test_locks_agree_with_the_constraints_of_the_set_up(lock):
    constraints = pins(PROJECT / "constraints.txt")
    locked = pins(PROJECT / "release" / lock)
    shared = locked.keys() & constraints.keys()
    assert not [name for name in shared if not constraints[name] <= locked[name]]
    assert "torch" in shared if lock == "torch.txt" else shared == locked.keys()


def test_locks_hold_every_dependency():
    dependencies = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", each)[0].lower() for each in dependencies}
    assert names <= pins(PROJECT / "release" / "paceline.txt").keys() | {"torch"}
