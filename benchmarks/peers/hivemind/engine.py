"""Runs `averaging.py` in hivemind's environment, and reads what it tells. Nothing is sent but to loopback."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import processes
from commands import told_by, versions_in
from repeats import MeasurementFailed

PYTHON = processes.BENCHMARKS.parent / ".venv-hivemind" / "bin" / "python"
SCRIPT = Path(__file__).parent / "averaging.py"
PACKAGES = ("hivemind", "numpy", "protobuf", "torch")

_LIMIT_SECONDS = 180.0


def measure_rounds(*, num_parameters: int, num_peers: int, num_rounds: int) -> list[float]:
    """Seconds of each round of averaging among all peers; raises `MeasurementFailed` if an average is wrong."""
    if not PYTHON.exists():
        raise MeasurementFailed("hivemind is not installed: `make bench-hivemind` does it")
    setup = {"num_parameters": num_parameters, "num_peers": num_peers, "num_rounds": num_rounds}
    with tempfile.TemporaryDirectory(prefix="hivemind-") as home:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": home}
        told = told_by(
            "lifeline",
            *(str(PYTHON), str(SCRIPT), json.dumps(setup)),
            limit_seconds=_LIMIT_SECONDS,
            environment=environment,
        )
    if not told["is_average_right"]:
        raise MeasurementFailed("hivemind: the average is not that of the peers")
    return list(told["round_seconds"])


def versions() -> dict[str, str | None]:
    """Of what is installed in hivemind's environment; empty if there is none."""
    return versions_in(PYTHON, PACKAGES, "hivemind")
