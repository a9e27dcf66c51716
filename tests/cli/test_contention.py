"""``paceline contention``: trains beside loads, and writes a profile of the slowdown."""

import json

import pytest

from paceline.cli import contention as module
from paceline.devices.contention import load_profile
from paceline.devices.contention.regression import Observation
from paceline.devices.contention.usage import Usage
from paceline.devices.subset import measure_training


@pytest.fixture
def quiet_machine(monkeypatch):
    """Observations of a device that slows down by half beside a full processor: this one's are noisy."""

    async def observe(trainer, shards, loads, *, seconds, watch):
        speed = (await measure_training(trainer, shards)).per_second
        observations = [
            Observation(
                load=f"cpu {ratio:.0%}", usage=Usage(cpu_ratio=ratio), seconds_per_sample=(1 + ratio / 2) / speed
            )
            for ratio in 3 * [step / 10 for step in range(11)]
        ]
        watch(len(observations), len(observations))
        return observations

    monkeypatch.setattr(module, "profile_training", observe)


@pytest.mark.parametrize("job", ["job.toml", "gossip.toml"])
def test_writes_a_profile_and_prints_its_figures(printed, quiet_machine, tmp_path, job):
    figures = json.loads(printed("contention", job, "--out", "device.json", "--seconds", 2, "--json"))
    profile = load_profile(tmp_path / "device.json")
    assert figures["out"] == "device.json"
    assert figures["seconds_per_sample"] == profile.seconds_per_sample > 0
    assert figures["error_ratio"] == profile.error_ratio < 0.3
    assert len(figures["observations"]) == profile.num_observations == 33
    assert 1.3 < profile.slowdown.ratio(Usage(cpu_ratio=1.0)) < 1.8
    assert profile.model == "two-nn"


def test_prints_a_table(printed, quiet_machine):
    out = printed("contention", "job.toml", "--out", "device.json")
    for text in ("cpu 100%", "slowdown", "samples/s alone", "cross-validated error", "device.json"):
        assert text in out


def test_bad_input_is_refused_before_anything_runs(refused, change):
    err = refused("contention", "job.toml", "--out", "none/device.json")
    assert err == "paceline: --out: there is no folder 'none'"
    assert "--seconds" in refused("contention", "job.toml", "--out", "device.json", "--seconds", 0)
    change("job.toml", "shard_size", 'placement = "local"\nshard_size')
    assert "job.toml" in refused("contention", "job.toml", "--out", "device.json")
