"""The examples run as their comments say."""

import inspect
import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from paceline.cli.main import main
from paceline.learning.datasets import DataSpec, load
from paceline.plugins import load_object

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    """Simulate a job on a fleet; returns its result, and its events as text."""
    monkeypatch.chdir(tmp_path)

    def simulate(job, fleet, *options, examples=EXAMPLES):
        with pytest.raises(SystemExit) as exit:
            main(["simulate", str(examples / job), str(examples / fleet), "--json", *options])
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


@pytest.mark.long
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


@pytest.mark.long
def test_train_a_model_of_ones_own_on_local_processes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "own_model.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert "round 3/3" in err
    assert "laptop trained" in out
    assert "after 3 rounds" in out
    assert (tmp_path / "runs/own-model/report.html").exists()


@pytest.fixture
def with_data(tmp_path):
    """A copy of an example, and what it needs: its data, made by its script, and the fleet."""

    def with_data(name):
        copy = tmp_path / "examples"
        shutil.copytree(EXAMPLES / name, copy / name)
        shutil.copy(EXAMPLES / "two-speeds.toml", copy)
        if (script := copy / name / "write_data.py").exists():
            runpy.run_path(str(script))
        return copy

    return with_data


TASKS = [
    ("regression/job.toml", "r2", 0.35),
    ("multi-label/job.toml", "micro_f1", 0.9),
    pytest.param("text/job.toml", "accuracy", 0.6, marks=pytest.mark.long),
    ("text/own.toml", "mean_recall", 0.5),
    ("tabular/wine.toml", "accuracy", 0.95),
    ("tabular/breast-cancer.toml", "accuracy", 0.95),
]


@pytest.mark.parametrize(("job", "metric", "least"), TASKS)
def test_simulate_an_example_of_each_task(simulate, with_data, job, metric, least):
    result, _ = simulate(job, "two-speeds.toml", examples=with_data(Path(job).parent))
    assert result[metric] > least


@pytest.mark.long
def test_simulate_the_example_of_a_language_model(simulate, with_data):
    result, _ = simulate("language-model/job.toml", "two-speeds.toml", examples=with_data("language-model"))
    assert result["perplexity"] < 8  # 22 by the letters' frequencies


@pytest.mark.long
def test_simulate_the_example_of_a_network_of_ones_own_on_images(simulate, with_data):
    """As it is, but on images of 3×32×32 that are at hand everywhere: digits, enlarged."""
    examples = with_data("classification")
    digits = load(DataSpec(name="digits"))
    parts = {"train": digits.train.take(slice(600)), "test": digits.test.take(slice(None))}
    images = {f"x_{part}": shard.x.repeat(3, 1).repeat(4, 2).repeat(4, 3) for part, shard in parts.items()}
    np.savez(examples / "images.npz", **images, **{f"y_{part}": shard.y for part, shard in parts.items()})
    job = examples / "classification/job.toml"
    job.write_text(job.read_text().replace('name = "cifar10"', 'path = "../images.npz"\nshard_size = 50'))
    result, _ = simulate("classification/job.toml", "two-speeds.toml", examples=examples)
    assert result["accuracy"] > 0.6  # of 10 classes, turned over and moved


def test_what_a_user_writes_is_short():
    network = inspect.getsource(load_object(f"{EXAMPLES / 'classification/net.py'}:Net", "model"))
    assert len(network.splitlines()) <= 25
    assert len((EXAMPLES / "text/task.py").read_text().splitlines()) <= 30  # imports and all
