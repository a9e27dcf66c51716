"""The programs of the system that build a testbed, and whether they are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.errors import ConfigError, PacelineError

RUN = Path("/run/paceline")
"""Where testbeds keep what must not outlive this start of the machine."""

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "setpriv": "util-linux"}
_MORE_PLACES = ("/usr/sbin", "/sbin")  # which PATH may lack
_MOST_SECONDS = 60.0
_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


def check() -> None:
    """Raise `ConfigError` where no testbed can be built: not Linux, not root, a program missing."""
    if sys.platform != "linux":
        raise ConfigError(f"a testbed needs Linux, and this is {sys.platform}; paceline simulate runs anywhere")
    if os.geteuid() != 0:
        raise ConfigError(
            "a testbed needs root, for network namespaces and cgroups: use sudo; paceline simulate needs none"
        )
    for name in _PACKAGES:
        path_of(name)


def path_of(name: str) -> str:
    """Where a program is; raises `ConfigError` if it is not there."""
    places = os.pathsep.join((os.environ.get("PATH", ""), *_MORE_PLACES))
    found = shutil.which(name, path=places)
    if found is None:
        raise ConfigError(f"a testbed needs the program {name!r}, and it is not there: install {_PACKAGES[name]}")
    return found


def run(name: str, *arguments: str) -> str:
    """Run a program to its end; returns what it printed. Raises `PacelineError` with the program's own words."""
    done = _run([name, *arguments])
    if done.returncode != 0:
        raise PacelineError(f"{' '.join((name, *arguments))} failed: {_joined_lines(done.stderr)}")
    return done.stdout


def batch(name: str, lines: Sequence[str], *, namespace: str | None = None, is_lenient: bool = False) -> None:
    """Have ``ip`` or ``tc`` do several things in a network namespace, in one process.

    Args:
        is_lenient: go on after a line that fails, and raise nothing.
    """
    where = [] if namespace is None else ["-n", namespace]
    done = _run([name, *where, *(["-force"] if is_lenient else []), "-batch", "-"], "\n".join(lines))
    if done.returncode != 0 and not is_lenient:
        failed = _FAILED_LINE.search(done.stderr)
        line = lines[int(failed[1]) - 1] if failed else "-batch -"
        reason = _joined_lines(_FAILED_LINE.sub("", done.stderr))
        raise PacelineError(f"{' '.join((name, *where, line))} failed: {reason}")


def _run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    command = [path_of(command[0]) if command[0] in _PACKAGES else command[0], *command[1:]]
    try:
        return subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            start_new_session=True,  # an interrupt at the keyboard must not end it halfway
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PacelineError(f"{' '.join(command)} failed: {error}") from error


def _joined_lines(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip()) or "no error output"
