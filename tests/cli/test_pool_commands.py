"""The commands that take pool files: what they print, and one clear line for whatever is wrong."""

import csv
import json

import pytest

from paceline.monitor import PoolFolder
from paceline.topologies.events import LearnerLeft

POOL = """\
[pool]
jobs = ["small.toml", "large.toml"]
min_learners = 3
total_budget = 500
[allocation]
budget = 60
"""
JOB = """\
[job]
rounds = 2
deadline_seconds = 60
local_epochs = {local_epochs}
benchmark_shards = 2
[data]
name = "digits"
shard_size = 64
"""
FLEET = """\
[[device]]
name = "pi"
count = 3
samples_per_second = {small = 200, large = 100}
down_mbit = 20
up_mbit = 10
price = 1.0
states = [{name = "idle", probability = 0.5}, {name = "training", probability = 0.5, speed = 0.5}]
"""


@pytest.fixture
def paceline_in(paceline_in):
    """The same, in a folder with a pool, its jobs and a fleet."""
    (paceline_in.folder / "pool.toml").write_text(POOL)
    (paceline_in.folder / "small.toml").write_text(JOB.format(local_epochs=1))
    (paceline_in.folder / "large.toml").write_text(JOB.format(local_epochs=2))
    (paceline_in.folder / "fleet.toml").write_text(FLEET)
    return paceline_in


def simulate(run, name):
    code, out, _ = run("simulate", "pool.toml", "fleet.toml", "--folder", name, "--json")
    assert code == 0
    return json.loads(out)


def test_simulate_tells_what_came_of_each_job(paceline_in):
    told = simulate(paceline_in, "run")
    assert told.keys() == {"jobs", "spent", "run", "report"}
    assert told["jobs"].keys() == {"small", "large"}
    for job in told["jobs"].values():
        assert job["rounds"] == 2
        assert 0 < job["accuracy"] <= 1
        assert 0 < job["training_seconds"] < 60
        assert (job["satisfaction"], job["fulfilment"], job["drop_rate"]) == (1, 1, 0)
        assert 0 < job["occupancy"] <= 1
    assert told["run"] == "run"
    assert (paceline_in.folder / told["report"]).stat().st_size > 10_000
    with (paceline_in.folder / "run/ledger.csv").open() as file:
        paid = [float(line["amount"]) for line in csv.DictReader(file)]
    assert told["spent"] == pytest.approx(sum(paid))
    assert 0 < told["spent"] <= 500


def test_simulate_twice_gives_identical_events(paceline_in):
    first, second = (simulate(paceline_in, name) for name in ("one", "two"))
    assert first["jobs"] == second["jobs"]
    for file in ("events.jsonl", "jobs/small/events.jsonl", "jobs/large/events.jsonl"):
        recorded = [(paceline_in.folder / name / file).read_bytes() for name in ("one", "two")]
        assert recorded[0] == recorded[1]


def test_simulate_tells_it_in_lines(paceline_in):
    code, out, err = paceline_in("simulate", "pool.toml", "fleet.toml", "--folder", "run", "--time-only")
    assert (code, err) == (0, "")
    for line in ("small submitted: 2 rounds of 60.0 s", "placed ", "large  round 2/2", "small: 2 rounds; ", "paid    "):
        assert line in out
    assert "accuracy" not in out


def test_audits_find_nothing_where_only_time_passes(paceline_in):
    job = paceline_in.folder / "small.toml"
    job.write_text(job.read_text().replace("rounds = 2", "rounds = 2\naudit_rate = 1"))
    code, _, _ = paceline_in("simulate", "pool.toml", "fleet.toml", "--folder", "run", "--time-only")
    told = [*PoolFolder.open(paceline_in.folder / "run").events()]
    assert code == 0
    assert not [event for event in told if isinstance(event, LearnerLeft)]


def test_report_makes_a_page_of_the_pool_and_of_a_job(paceline_in):
    simulate(paceline_in, "run")
    for folder in ("run", "run/jobs/small"):
        code, out, _ = paceline_in("report", folder, "--json", "--output", "page.html")
        assert (code, json.loads(out)["report"]) == (0, "page.html")
        assert "small" in (paceline_in.folder / "page.html").read_text()


def test_a_pool_cannot_be_resumed(paceline_in):
    simulate(paceline_in, "run")
    code, _, err = paceline_in("serve", "--resume", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("paceline: run is the run of a pool, which cannot be resumed")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("pool.toml", "min_learners = 3", "min_learner = 3", "pool.toml: [pool]: unknown key 'min_learner'; did you"),
        ("pool.toml", "small.toml", "none.toml", "none.toml: cannot be read: No such file or directory"),
        (
            "pool.toml",
            "budget = 60",
            "policy = 'csa'",
            "policy 'csa' is for one job alone; a pool's is one of med, mmtt",
        ),
        ("large.toml", "rounds = 2", "rounds = 0", "large.toml: [job]: rounds is 0; it must be at least 1"),
        ("large.toml", "rounds = 2", "name = 'small'", "pool.toml: 2 jobs are called 'small'; names must differ"),
    ],
)
def test_a_bad_pool_gets_one_clear_line(paceline_in, file, old, new, message):
    path = paceline_in.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    for arguments in (("simulate", "pool.toml", "fleet.toml"), ("serve", "pool.toml")):
        code, out, err = paceline_in(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
    assert not (paceline_in.folder / "runs").exists()  # nothing is left of a pool that could not start


def test_a_device_without_a_speed_for_a_job_gets_one_clear_line(paceline_in):
    fleet = paceline_in.folder / "fleet.toml"
    fleet.write_text(fleet.read_text().replace("large", "big"))
    code, _, err = paceline_in("simulate", "pool.toml", "fleet.toml", "--folder", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("paceline: device pi-")
    assert "samples_per_second has no speed for job 'large', only for 'small', 'big'" in err


def test_submit_without_a_pool_gets_one_clear_line(paceline_in):
    code, out, err = paceline_in("submit", "small.toml", "--to", "http://127.0.0.1:9")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "127.0.0.1:9" in err
    code, out, err = paceline_in("submit", "none.toml", "--to", "http://127.0.0.1:9")
    assert (code, err) == (2, "paceline: none.toml: cannot be read: No such file or directory\n")
