"""The Python API: a user's own model on a local fleet, from a script."""

import runpy
import subprocess
import sys

import pytest

from paceline.errors import PacelineError

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
    print(run.metrics["rounds"], run.accuracy > 0.7, run.report().exists(), sorted(run.state))
"""


@pytest.fixture
def run_script(tmp_path, monkeypatch, capfd):
    """Run a script as `python train.py` does, in this process; returns what it prints and its errors."""

    def run_script(source):
        (tmp_path / "train.py").write_text(source)
        monkeypatch.chdir(tmp_path)
        runpy.run_path("train.py", run_name="__main__")
        return capfd.readouterr()

    return run_script


@pytest.mark.slow
def test_own_model_on_a_local_fleet(run_script):
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 15
    learned = ["model.1.bias", "model.1.weight", "model.3.bias", "model.3.weight"]
    out, err = run_script(SCRIPT)
    assert err == ""
    assert out == f"3 True True {[*learned, 'preprocessing.scale', 'preprocessing.shift']}\n"


@pytest.mark.slow
def test_a_script_without_a_guard_gets_one_clear_line(run_script):
    with pytest.raises(PacelineError, match='if __name__ == "__main__"') as raised:
        run_script(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_script_with_a_named_model_needs_no_guard(run_script):
    source = """
from paceline import Job, LocalFleet, train
run = train(Job(deadline_seconds=1, rounds=1, model="two-nn"), LocalFleet([{"name": "pi"}]), progress=False)
print(run.metrics["rounds"])
"""
    assert run_script(source) == ("1\n", "")


def test_what_needs_no_torch_starts_without_it():
    source = "import sys, paceline; print('torch' in sys.modules, paceline.__version__)"
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert result.stdout.startswith("False ")


def test_unknown_names_are_unknown():
    import paceline

    with pytest.raises(AttributeError, match="nonsense"):
        _ = paceline.nonsense
