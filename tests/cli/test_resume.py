"""``paceline resume``: one way to go on with any run."""

import json

import pytest

from paceline.fleets.kept_fleets import fleet_of
from paceline.fleets.local import LocalDevice, LocalFleet
from paceline.fleets.modelled import VirtualDevice
from paceline.fleets.virtual import VirtualFleet


@pytest.fixture
def run(printed, tmp_path):
    """The folder of a run on virtual time."""

    def run(job="job.toml"):
        printed("simulate", job, "fleet.toml", "--folder", "run")
        return tmp_path / "run"

    return run


def interrupt(folder):
    """Cut off the record of a run in its last round."""
    events = folder / "events.jsonl"
    kept = events.read_text().rpartition('{"event":"round_closed"')[0]
    events.write_text(kept)


@pytest.mark.parametrize(
    ("job", "rounds", "message"),
    [
        ("job.toml", "rounds = 2", "run: all 2 rounds are done; there is nothing to resume"),
        ("job.toml", "rounds = 50\ntarget = 'accuracy >= 0.3'", "target, accuracy >= 0.3, is reached"),
        ("pool.toml", "rounds = 2", "run: all jobs of the pool are over; there is nothing to resume"),
    ],
)
def test_what_is_over_cannot_be_resumed(run, refused, change, job, rounds, message):
    change("job.toml", "rounds = 2", rounds)
    events = run(job) / "events.jsonl"
    before = events.read_bytes()
    assert message in refused("resume", "run")
    assert events.read_bytes() == before


def test_a_simulated_run_goes_on_with_the_same_fleet_and_for_more_rounds(run, printed, refused):
    folder = run()
    kept = (folder / "fleet.json").read_bytes()
    assert (folder / "fleet.json").stat().st_mode & 0o077 == 0
    interrupt(folder)
    out = printed("resume", "run", "--rounds", "4", "--json")
    assert json.loads(out)["rounds"] == 4
    assert (folder / "fleet.json").read_bytes() == kept
    assert "ended: rounds done, 5 rounds" in printed("resume", "run", "--rounds", "5", "--save", "model.safetensors")
    assert (folder.parent / "model.safetensors").exists()
    assert "65535" in refused("resume", "run", "--page=99999")
    assert "ended: rounds done, 6 rounds" in printed("resume", "run", "--rounds", "6", "--page")


def test_a_run_that_is_no_run_or_does_not_say_how_it_was_run_gets_one_clear_line(run, refused):
    assert "is not a run folder" in refused("resume", ".")
    assert "no such folder" in refused("resume", "nowhere")
    folder = run()
    interrupt(folder)
    for content in ("", "{", '{"type": "moon"}', '{"type": "virtual", "devices": [], "speed": 1}'):
        (folder / "fleet.json").write_text(content)
        assert "run/fleet.json cannot be read" in refused("resume", "run")
    (folder / "fleet.json").write_text('{"type": "virtual", "devices": [{"name": "a"}]}')
    assert "run/fleet.json: device 1: samples_per_second is missing" in refused("resume", "run")
    (folder / "fleet.json").unlink()
    assert "so nothing says how it was run; in Python, paceline.resume goes on" in refused("resume", "run")
    for content in ("", "{", '{"port": "x"}'):
        (folder / "listen.json").write_text(content)
        assert "listen.json cannot be read" in refused("resume", "run")


def test_rounds_are_for_jobs_that_have_rounds(run, refused):
    run("pool.toml")
    assert "rounds are for jobs that have rounds; this is a [pool]" in refused("resume", "run", "--rounds", "9")


def test_a_fleet_is_made_again_as_it_was():
    states = [{"name": "idle", "probability": 0.5}, {"name": "busy", "probability": 0.5, "speed": 0.1}]
    device = VirtualDevice(name="pi", count=3, samples_per_second={"a": 5, "b": 7.5}, states=states, max_shards=4)
    host = VirtualDevice(name="host", samples_per_second=100, is_server=True)
    fleets = [
        VirtualFleet([device, host], is_time_only=True),
        LocalFleet([LocalDevice(name="a", slowdown=2, data="x.npz")], options=["--compile"], threads=3),
    ]
    for fleet in fleets:
        described = fleet.described()
        again = fleet_of(json.dumps(described).encode(), "fleet.json")
        assert again.described() == described
        assert again.devices == fleet.devices
        assert type(again) is type(fleet)
