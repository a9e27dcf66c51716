"""``paceline simulate``, ``run``, ``bench`` and ``demo``: what they print, and one clear line for what is wrong."""

import csv
import json

import pytest

from paceline.cli.demo import fit_pace
from paceline.learning import checkpoints
from paceline.report import RunFolder
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.parallel.events import ShardsTaken


@pytest.fixture
def simulate(printed):
    """Simulate a job, with its run in the folder of this name; returns its result."""

    def simulate(job, name, *options):
        return json.loads(printed("simulate", job, "fleet.toml", "--folder", name, "--json", *options))

    return simulate


def recorded(folder, kind):
    return [event for event in RunFolder.open(folder).events() if isinstance(event, kind)]


def events_of(folder):
    """The events of a run and of its jobs, as recorded."""
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("events.jsonl"))}


@pytest.mark.parametrize("kind", ["job", "pool", "gossip", "split"])
def test_simulating_twice_gives_the_same_result_and_events(simulate, few_digits, tmp_path, kind):
    results = [simulate(f"{kind}.toml", name) for name in ("one", "two")]
    assert [result.pop("run") for result in results] == ["one", "two"]
    assert [result.pop("report") for result in results] == ["one/report.html", "two/report.html"]
    assert results[0] == results[1]
    first, second = (events_of(tmp_path / name) for name in ("one", "two"))
    assert first == second
    assert len(first) == (3 if kind == "pool" else 1)
    assert (tmp_path / "one/report.html").stat().st_size > 10_000


def test_the_result_of_a_pool(simulate, tmp_path):
    result = simulate("pool.toml", "run")
    assert result.keys() == {"jobs", "spent", "run", "report"}
    assert result["jobs"].keys() == {"small", "large"}
    for job in result["jobs"].values():
        assert job["rounds"] == 2
        assert 0 < job["accuracy"] <= 1
        assert 0 < job["training_seconds"] < 60
        assert (job["satisfaction"], job["fulfilment"], job["drop_rate"]) == (1, 1, 0)
        assert 0 < job["occupancy"] <= 1
    with (tmp_path / "run/ledger.csv").open() as file:
        paid = [float(line["amount"]) for line in csv.DictReader(file)]
    assert result["spent"] == pytest.approx(sum(paid))
    assert 0 < result["spent"] <= 500


def test_the_result_of_peers_and_of_sources(simulate, few_digits, tmp_path):
    result = simulate("gossip.toml", "peers")
    assert result["averaged"] == ["pi-1", "pi-2"]
    assert result["accuracy"] > 0.15
    result = simulate("split.toml", "sources")
    assert result["epochs"] == 2
    assert result["accuracy"] > 0.3
    assert {event.learner for event in recorded(tmp_path / "sources", LearnerJoined)} == {"pi-1", "pi-2"}
    state = checkpoints.read(tmp_path / "sources/checkpoints/final.safetensors")
    assert {name.split(".")[1] for name in state if name.startswith("branches.")} == {"pi-1", "pi-2"}


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ("job.toml", ["round 2/2  2 learners", "latest finish: ", "run     run", "report  run/report.html"]),
        ("pool.toml", ["small submitted: 2 rounds of 60.0 s", "placed ", "large  round 2/2", "paid "]),
        ("gossip.toml", ["epoch 2/2  2 peers", "the average of 2 peers"]),
    ],
)  # fmt: skip
def test_progress_is_shown_in_lines(paceline_in, job, lines):
    code, out, err = paceline_in("simulate", job, "fleet.toml", "--folder", "run", "--time-only")
    assert (code, err) == (0, "")
    assert [line for line in lines if line not in out] == []
    assert "accuracy" not in out


def test_audits_find_nothing_where_only_time_passes(simulate, change, tmp_path):
    change("small.toml", "rounds = 2", "rounds = 2\naudit_rate = 1")
    simulate("pool.toml", "run", "--time-only")
    assert recorded(tmp_path / "run", LearnerLeft) == []


def test_a_run_is_not_written_over_unless_asked(simulate, printed, refused, tmp_path):
    assert simulate("job.toml", "run", "--time-only")["accuracy"] is None
    assert "exists and is not empty" in refused("simulate", "job.toml", "fleet.toml", "--folder", "run")
    (tmp_path / "run/notes.txt").write_text("mine")
    again = ("simulate", "job.toml", "fleet.toml", "--folder", "run", "--overwrite")
    assert "run holds notes.txt, which is not of a run" in refused(*again)
    (tmp_path / "run/notes.txt").unlink()
    assert printed(*again)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("job.toml", "rounds = 2", "rounds = 0", "job.toml: [job]: rounds is 0; allowed: 1 to 1000000"),
        ("job.toml", '"dab"', '"dap"', "job.toml: [allocation]: policy 'dap' is unknown; did you mean 'dab'?"),
        ("job.toml", '"digits"', '"digit"', "job.toml: [data]: dataset 'digit' is unknown"),
        ("job.toml", "[job]", "[job", "job.toml: not TOML"),
        ("job.toml", "rounds = 2", "min_learners = 3", "the fleet has 2 devices; the job needs 3 to begin"),
        ("fleet.toml", "count = 2", "count = 1\nfast = 2", "fleet.toml: device 1: unknown key 'fast'"),
        ("pool.toml", "small.toml", "none.toml", "none.toml: cannot be read: No such file or directory"),
        ("large.toml", "rounds = 2", "rounds = 0", "large.toml: [job]: rounds is 0; allowed: 1 to 1000000"),
        ("pool.toml", "min_learners = 2", "min_learners = 3", "the fleet has 2 devices; the job needs 3 to begin"),
        ("split.toml", 'cut = "3"', 'cut = "f9"', "cut is 'f9'; allowed: 0, 1, 2, 3, 4, 5"),
        ("split.toml", "digits.npz", "none.npz", "none.npz"),
        ("split.toml", "sources = 2", "sources = 3", "the fleet has 2 devices; the job needs 3 to begin"),
        ("gossip.toml", "min_peers = 1", "min_peers = 3", "the fleet has 2 devices; the job needs 3 to begin"),
    ],
)
def test_bad_files_get_one_clear_line_and_leave_no_folder(
    refused, few_digits, change, tmp_path, file, old, new, message
):
    change(file, old, new)
    job = {"fleet.toml": "job.toml", "large.toml": "pool.toml"}.get(file, file)
    assert message in refused("simulate", job, "fleet.toml")
    assert not (tmp_path / "runs").exists()


def test_what_no_fleet_can_do_gets_one_clear_line(paceline_in, few_digits, change, tmp_path):
    change("fleet.toml", "= 200", "= {small = 200, big = 100}")
    for job, options, message in (
        ("pool.toml", (), "samples_per_second has no speed for job 'large', only for 'small', 'big'"),
        ("split.toml", ("--time-only",), "--time-only: the messages of such a job are made of its gradients; leave"),
    ):
        code, _, err = paceline_in("simulate", job, "fleet.toml", "--folder", f"run of {job}", *options)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
        assert not (tmp_path / f"run of {job}").exists()


def test_bench_measures_this_device(printed, refused, few_digits):
    figures = json.loads(printed("bench", "job.toml", "--shards", 3, "--json"))
    assert figures["threads"] >= 1
    assert json.loads(printed("bench", "job.toml", "--threads", 1, "--json"))["threads"] == 1
    assert (figures["device"], figures["precision"]) == ("cpu", "float32")
    assert figures["shards"] == 3
    assert figures["samples_per_second"] > 0
    assert figures["flops"] > 0
    assert figures["shards_by_deadline"] == pytest.approx(4 * figures["samples_per_second"] / 32, abs=1)
    assert "job.toml: cannot be read" in refused("bench", "no-job.toml")
    assert "device cuda:77 is not available" in refused("bench", "job.toml", "--device", "cuda:77")
    assert "train nothing alone" in refused("bench", "split.toml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("job.toml",), "give the devices to start: either --devices N or --fleet FILE"),
        (("job.toml", "--devices", "2", "--fleet", "fleet.toml"), "give the devices to start: either --devices N"),
        (("job.toml", "--devices", "two"), "--devices"),
        (("job.toml", "--devices", "0"), "--devices"),
        (("pool.toml", "--devices", "1"), "the fleet has 1 device; the job needs 2 to begin"),
    ],
)
def test_bad_options_of_run_get_one_clear_line(refused, tmp_path, arguments, message):
    assert message in refused("run", *arguments)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_run_starts_processes_and_saves_the_model(paceline_in, change):
    change("gossip.toml", "min_peers = 1", "min_peers = 2")
    (paceline_in.folder / "pis.toml").write_text('[[device]]\nname = "pi"\ncount = 2\nslowdown = 2\n')
    code, out, err = paceline_in(
        *("run", "gossip.toml", "--fleet", "pis.toml", "--folder", "run", "--save", "model.safetensors", "--json")
    )
    assert code == 0, err
    assert "Starting devices on this machine: 2 …" in err
    assert json.loads(out)["averaged"] == ["pi-1", "pi-2"]
    assert checkpoints.read(paceline_in.folder / "model.safetensors").keys()


@pytest.mark.parametrize(
    ("samples_per_second", "pace"),
    [(50.0, (10.0, 1.0)), (400.0, (4.3, 1.0)), (863.0, (2.0, 1.0)), (8640.0, (2.0, 10.0))],
)
def test_the_pace_of_the_demo_fits_the_machine(samples_per_second, pace):
    found = fit_pace(samples_per_second, 90)
    assert found == pytest.approx(pace)
    assert found.deadline_seconds * samples_per_second / found.slowdown <= 0.6 * 90 * 2 * 16 * 1.001


@pytest.mark.slow
def test_demo_trains_four_devices(paceline_in, tmp_path):
    code, out, err = paceline_in("demo", "--rounds", "3", "--json", "--folder", "run")
    assert code == 0, err
    found = json.loads(out)
    assert {"accuracy", "rounds", "truancy_max", "run", "report"} <= set(found)
    assert found["rounds"] == 3
    assert found["accuracy"] > 0.8
    assert (tmp_path / found["report"]).exists()
    taken = {}
    for event in recorded(tmp_path / found["run"], ShardsTaken):
        taken.setdefault(event.learner, []).append(event.num_shards)
    assert set(taken) == {"laptop", "old-pc", "jetson", "pi"}
    assert 80 > min(taken["laptop"]) > max(taken["pi"])
    deadline_seconds = json.loads((tmp_path / "run/job.json").read_bytes())["job"]["deadline_seconds"]
    assert f"Starting 4 devices on this machine, with rounds of {deadline_seconds:g} s; each" in err
