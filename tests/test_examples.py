"""The examples run as their comments say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import main

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_simulate_the_example_job_on_the_example_fleet(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = None
    try:
        main(["simulate", str(EXAMPLES / "job.toml"), str(EXAMPLES / "fleet.toml"), "--folder", "run", "--json"])
    except SystemExit as exit:
        code = exit.code
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    assert result["rounds"] == 12
    assert result["accuracy"] > 0.85
    assert "laptop" in (tmp_path / "run/events.jsonl").read_text()
    assert (tmp_path / result["report"]).exists()


def test_simulate_the_example_pool(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = None
    try:
        main(["simulate", *(str(EXAMPLES / "pool" / name) for name in ("pool.toml", "fleet.toml")), "--json"])
    except SystemExit as exit:
        code = exit.code
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {name: job["rounds"] for name, job in result["jobs"].items()} == {"small": 8, "large": 5}
    assert min(job["accuracy"] for job in result["jobs"].values()) > 0.85
    assert min(job["fulfilment"] for job in result["jobs"].values()) > 0.9
    assert 0 < result["spent"] <= 1_100
    told = (tmp_path / result["run"] / "events.jsonl").read_text()
    assert "laptop" in told
    assert "learner_left" not in told  # audits find no cheat where there is none
    assert '"update_audited"' in (tmp_path / result["run"] / "jobs/small/events.jsonl").read_text()
    assert (tmp_path / result["report"]).exists()


def test_simulate_the_example_of_a_split_model(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit:
        main(["simulate", *(str(EXAMPLES / "split" / name) for name in ("job.toml", "fleet.toml")), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert exit.value.code == 0
    assert told["epochs"] == 10
    assert told["accuracy"] > 0.85
    events = (tmp_path / told["run"] / "events.jsonl").read_text()
    assert '"source_masked"' in events  # one is away for a while
    assert '"source_back"' in events
    assert (tmp_path / told["report"]).exists()


@pytest.mark.parametrize("job", ["job.toml", "pool/pool.toml", "gossip/job.toml"])
def test_any_job_can_be_simulated_in_a_cell(job, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fleet = tmp_path / "cell.toml"
    text = (EXAMPLES / "cell.toml").read_text()
    fleet.write_text(text.replace("[[device]]", "[[device]]\nprice = 0.1"))  # for the budget of the pool
    with pytest.raises(SystemExit) as exit:
        main(["simulate", str(EXAMPLES / job), str(fleet), "--time-only", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert exit.value.code == 0
    names = {"camera-1", "van", "laptop-2", "old-server"}
    events = (tmp_path / told["run"] / "events.jsonl").read_text()
    assert all(f'"{name}"' in events for name in names)


def test_train_a_model_of_ones_own_on_local_processes(tmp_path):
    command = [sys.executable, str(EXAMPLES / "own_model.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ})
    assert (done.returncode, done.stderr) == (0, "")
    assert "laptop trained" in done.stdout
    assert "after 3 rounds" in done.stdout
    assert (tmp_path / "runs/own-model/report.html").exists()
