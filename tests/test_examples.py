"""The examples run as their comments say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import main

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    """Simulate a job on a fleet; returns its result, and its events as text."""
    monkeypatch.chdir(tmp_path)

    def simulate(job, fleet, *options):
        with pytest.raises(SystemExit) as exit:
            main(["simulate", str(EXAMPLES / job), str(EXAMPLES / fleet), "--json", *options])
        result = json.loads(capsys.readouterr().out)
        assert exit.value.code == 0
        assert (tmp_path / result["report"]).exists()
        return result, (tmp_path / result["run"] / "events.jsonl").read_text()

    return simulate


def test_simulate_the_example_job_on_the_example_fleet(simulate):
    result, events = simulate("job.toml", "fleet.toml")
    assert result["rounds"] == 12
    assert result["accuracy"] > 0.85
    assert "laptop" in events


def test_simulate_the_example_pool(simulate, tmp_path):
    result, events = simulate("pool/pool.toml", "pool/fleet.toml")
    assert {name: job["rounds"] for name, job in result["jobs"].items()} == {"small": 8, "large": 5}
    assert min(job["accuracy"] for job in result["jobs"].values()) > 0.85
    assert min(job["fulfilment"] for job in result["jobs"].values()) > 0.9
    assert 0 < result["spent"] <= 1_100
    assert "laptop" in events
    assert "learner_left" not in events  # audits find no cheat where there is none
    assert '"update_audited"' in (tmp_path / result["run"] / "jobs/small/events.jsonl").read_text()


def test_simulate_the_example_split_job(simulate, tmp_path):
    result, events = simulate("split/job.toml", "split/fleet.toml")
    assert result["epochs"] == 10
    assert result["accuracy"] > 0.9
    assert all(f'"{event}"' in events for event in ("source_masked", "source_back"))
    assert (tmp_path / result["run"] / "checkpoints/final.safetensors").exists()


@pytest.mark.parametrize("job", ["job.toml", "pool/pool.toml", "gossip/job.toml"])
def test_any_job_can_be_simulated_in_a_cell(simulate, job, tmp_path):
    text = (EXAMPLES / "cell.toml").read_text()
    fleet = tmp_path / "cell.toml"
    fleet.write_text(text.replace("[[device]]", "[[device]]\nprice = 0.1"))  # for the budget of the pool
    _, events = simulate(job, fleet, "--time-only")
    assert all(f'"{name}"' in events for name in ("camera-1", "van", "laptop-2", "old-server"))


def test_train_a_model_of_ones_own_on_local_processes(tmp_path):
    command = [sys.executable, str(EXAMPLES / "own_model.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "round 3/3" in done.stderr
    assert "laptop trained" in done.stdout
    assert "after 3 rounds" in done.stdout
    assert (tmp_path / "runs/own-model/report.html").exists()
