"""Commands in processes of their own that tell their figures as one document of JSON; and what is installed there."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import processes
from repeats import MeasurementFailed

_RAISED = re.compile(r"^[\w.]*(?:Error|Exception)\b.*", re.MULTILINE)  # the last line of a traceback
_LIST_VERSIONS = (
    "import json, sys, importlib.metadata as m\n"
    "print(json.dumps({n: next((d.version for d in m.distributions(name=n)), None) for n in sys.argv[1:]}))"
)


def told_by(
    module: str, *arguments: str, limit_seconds: float, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What `python -m module` printed, which must end when its standard input does; see `processes.child`.

    Raises `MeasurementFailed` with the errors that it printed.
    """
    with tempfile.TemporaryFile() as errors:
        with processes.child(
            module, *arguments, stdout=subprocess.PIPE, stderr=errors, environment=environment
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(limit_seconds, process.stdin.close)
            timer.start()
            try:
                output = process.stdout.read()
                code = process.wait()
            finally:
                timer.cancel()
        errors.seek(0)
        log = errors.read().decode(errors="replace")
    if code != 0 or not output:
        # A server's error, if it had one, comes before the client's.
        raised = dict.fromkeys(_RAISED.findall(log))
        raise MeasurementFailed("; then ".join(raised) or f"exit code {code}, {len(output)} bytes told")
    told: dict[str, Any] = json.loads(output)
    return told


def versions_in(python: Path, packages: Sequence[str], of: str) -> dict[str, str | None]:
    """Of what is installed in an environment of its own, by its interpreter; empty if there is none."""
    if not python.exists():
        return {}
    found = subprocess.run([python, "-c", _LIST_VERSIONS, *packages], capture_output=True, check=True).stdout
    return {f"{name} (with {of})": version for name, version in json.loads(found).items()}
