"""The benchmarks run at their small size; what they measure is not judged here."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def long(*case):
    return pytest.param(*case, marks=pytest.mark.long)


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a benchmark at its small size, in this process; returns its figures, and its page."""
    known = set(sys.modules)

    def run(script, systems):
        output, page = tmp_path / "out.json", tmp_path / "out.md"
        options = ["--quick", "--systems", systems, "--output", output, "--markdown", page]
        monkeypatch.setattr(sys, "argv", [script, *map(str, options)])
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
        assert ended.value.code == 0, capfd.readouterr().err
        return json.loads(output.read_text())["systems"], page.read_text()

    num_threads = torch.get_num_threads()
    yield run
    torch.set_num_threads(num_threads)
    for name in set(sys.modules) - known:  # other modules have the same names
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(BENCHMARKS):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "systems", "metric"),
    [
        long("rpc.py", "raw-tcp,paceline", "small_call_p50_us"),
        ("http_candidates.py", "http-transport-uvloop", "small_call_p50_us"),
        long("rounds.py", "paceline", "seconds_per_round"),
        ("simulate.py", "paceline", "rounds_per_second"),
        ("policies.py", "dab,eta", "accuracy"),
        long("poisoning.py", "none,default (both)", "digits scaled"),
        ("compression.py", "none,int4", "accuracy"),
        ("allocation.py", "csa,csa-relaxed,csa-sai,eta", "ms"),
        ("med.py", "med,highs,greedy", "seconds"),
        ("subset.py", "training,download", "error"),
        long("larger_than_memory.py", "open,take,train", "peak_mb"),
        long("since.py", "import of a learner", "seconds"),
        long("stressors.py", "training,downloading", "train_slowdown"),
        long("gossip.py", "virtual,paceline,sockets,mixing-sockets", "seconds_per_epoch"),
        long("split.py", "one-process,sockets,torch-rpc,paceline,virtual", "steps_per_second"),
        long("many_learners.py", "1000 learners", "p99_ms"),
        long("viewers.py", "1000 devices", "ms"),
        ("points.py", "svd+k-means,incremental-svd+lsh,pca+lsh", "seconds"),
    ],
)
def test_benchmark(script, systems, metric, run):
    measured, page = run(script, systems)
    assert len(measured) >= len(systems.split(","))
    assert all(figures[metric]["median"] > 0 for figures in measured.values())
    assert page.count("\n|") > len(measured)


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


@pytest.mark.long
@pytest.mark.parametrize("script", ["audits.py", "audit_precisions.py"])
def test_audits_are_measured_for_each_kind_of_learner(script, tmp_path):
    command = [sys.executable, BENCHMARKS / script, "--quick", "--systems", "two threads,start and noise"]
    result = subprocess.run(
        [*command, "--output", tmp_path / "out.json", "--markdown", tmp_path / "out.md"],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    told = (tmp_path / "out.md").read_text()
    assert "| two threads | 0 of 1 |" in told
    assert "| start and noise | 0 of 1 |" in told
