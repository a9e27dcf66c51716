"""The benchmarks run at their small size; what they measure is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
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


def test_lifeline_ends_all_that_a_command_started(tmp_path):
    source = """
import subprocess, sys
orphan = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", orphan], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.read(1)
print(child.pid, flush=True)
if len(sys.argv) == 1:
    child.wait()
"""
    (tmp_path / "command.py").write_text(source)
    for arguments in ([], ["end"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "lifeline", sys.executable, tmp_path / "command.py", *arguments],
            cwd=BENCHMARKS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with process:
            orphan_pid = int(process.stdout.readline())
            process.stdin.close()
            assert process.wait(timeout=30) == 0
        assert not psutil.pid_exists(orphan_pid)
