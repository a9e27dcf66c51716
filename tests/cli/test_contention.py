"""``paceline contention``: trains beside loads, and writes a profile of the slowdown."""

import json
import os

import pytest

from paceline.cli import contention as module
from paceline.devices.contention import load_profile
from paceline.devices.contention.loads import IDLE, Load

JOB = """
[job]
deadline_seconds = 1
benchmark_shards = 4

[data]
name = "digits"
shard_size = 100
"""


@pytest.fixture
def few_loads(monkeypatch):
    """As few loads as a fit can do with."""
    loads = (IDLE, Load(num_processes=1), Load(num_processes=os.cpu_count() + 1))
    monkeypatch.setattr(module, "loads_for", lambda num_cores: loads)


def test_writes_a_profile_and_prints_its_figures(paceline_in, few_loads):
    (paceline_in.folder / "job.toml").write_text(JOB)
    code, out, err = paceline_in("contention", "job.toml", "--out", "device.json", "--seconds", 2, "--json")
    assert code == 0, err
    figures, profile = json.loads(out), load_profile(paceline_in.folder / "device.json")
    assert figures["out"] == "device.json"
    assert figures["seconds_per_sample"] == profile.seconds_per_sample > 0
    assert figures["error_ratio"] == profile.error_ratio
    assert len(figures["observations"]) == profile.num_observations == 9
    assert {observation["load"] for observation in figures["observations"]} >= {"none", "cpu 1 × 100%"}
    assert profile.model == "two-nn"


def test_takes_gossip_jobs(paceline_in, few_loads):
    (paceline_in.folder / "gossip.toml").write_text('[gossip]\n[model]\nname = "two-nn"\n[data]\nname = "digits"\n')
    code, out, err = paceline_in("contention", "gossip.toml", "--out", "device.json", "--seconds", 2, "--json")
    assert code == 0, err
    assert json.loads(out)["seconds_per_sample"] > 0


def test_prints_a_table(paceline_in, few_loads):
    (paceline_in.folder / "job.toml").write_text(JOB)
    code, out, err = paceline_in("contention", "job.toml", "--out", "device.json", "--seconds", 2)
    assert code == 0, err
    for text in ("none", "cpu 1 × 100%", "slowdown", "samples/s alone", "cross-validated error", "device.json"):
        assert text in out


def test_bad_input_is_refused_before_anything_runs(paceline_in):
    (paceline_in.folder / "job.toml").write_text(JOB)
    code, _, err = paceline_in("contention", "job.toml", "--out", "none/device.json")
    assert (code, err) == (2, "paceline: --out: there is no folder 'none'\n")
    (paceline_in.folder / "local.toml").write_text(JOB.replace("shard_size", 'placement = "local"\nshard_size'))
    code, _, err = paceline_in("contention", "local.toml", "--out", "device.json")
    assert code == 2
    assert "local.toml" in err
    code, _, err = paceline_in("contention", "job.toml", "--out", "device.json", "--seconds", 0)
    assert code == 2
    assert "--seconds" in err
