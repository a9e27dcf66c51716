"""The Python API: a user's own model on a local fleet, from a script of its own."""

import subprocess
import sys

import pytest

SCRIPT = """
import torch
import paceline


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


if __name__ == "__main__":
    job = paceline.Job(deadline_seconds=1, rounds=3, min_learners=2, model=Net)
    devices = [paceline.LocalDevice(name="fast"), paceline.LocalDevice(name="slow", slowdown=4)]
    run = paceline.train(job, paceline.LocalFleet(devices), progress=False)
    print(run.metrics["rounds"], run.accuracy > 0.7, run.report().exists(), sorted(run.state)[-1])
"""


def run_script(source, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(source)
    return subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, timeout=120)


@pytest.mark.slow
def test_own_model_on_a_local_fleet(tmp_path):
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 15
    result = run_script(SCRIPT, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    learned = ["model.1.bias", "model.1.weight", "model.3.bias", "model.3.weight"]
    assert result.stdout == f"3 True True {[*learned, 'preprocessing.scale', 'preprocessing.shift']}\n"


@pytest.mark.slow
def test_a_script_without_a_guard_gets_one_clear_line(tmp_path):
    unguarded = SCRIPT.replace('if __name__ == "__main__":', "if True:")
    result = run_script(unguarded, tmp_path)
    assert result.returncode != 0
    assert 'if __name__ == "__main__"' in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_script_with_a_named_model_needs_no_guard(tmp_path):
    source = """
from paceline import Job, LocalFleet, train
run = train(Job(deadline_seconds=1, rounds=1, model="two-nn"), LocalFleet([{"name": "pi"}]), progress=False)
print(run.metrics["rounds"])
"""
    result = run_script(source, tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")


def test_what_needs_no_torch_starts_without_it():
    source = "import sys, paceline; print('torch' in sys.modules, paceline.__version__)"
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert result.stdout.startswith("False ")


def test_unknown_names_are_unknown():
    import paceline

    with pytest.raises(AttributeError, match="nonsense"):
        _ = paceline.nonsense
