"""The benchmarks run at their small size; what they measure is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "systems"),
    [
        ("rpc.py", ["raw-tcp", "paceline", "paceline-coro", "paceline-tls"]),
        ("http_candidates.py", ["http-transport-uvloop"]),
    ],
)
def test_benchmark(script, systems, tmp_path):
    command = [sys.executable, BENCHMARKS / script, "--quick", "--systems", ",".join(systems)]
    result = subprocess.run(
        [*command, "--output", tmp_path / "out.json", "--markdown", tmp_path / "out.md"],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert set(document["systems"]) == set(systems)
    assert all(figures["small_call_p50_us"]["median"] > 0 for figures in document["systems"].values())
    assert (tmp_path / "out.md").read_text().count("\n|") > len(systems)
