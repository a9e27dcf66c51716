"""The commands that train: what they print, and one clear line for whatever is wrong."""

import json
import subprocess
import sys

import pytest

import paceline
from paceline.cli import serve
from paceline.monitor import RunFolder

JOB = """\
[job]
rounds = 2
deadline_seconds = 4
[data]
name = "digits"
shard_size = 32
[allocation]
policy = "dab"
"""
FLEET = """\
[[device]]
name = "pi"
count = 2
samples_per_second = 100
speed_noise = 0.2
down_mbit = 20
up_mbit = 10
"""


@pytest.fixture
def paceline_in(paceline_in):
    """The same, in a folder with a job and a fleet."""
    (paceline_in.folder / "job.toml").write_text(JOB)
    (paceline_in.folder / "fleet.toml").write_text(FLEET)
    return paceline_in


def simulate(run, name):
    code, out, _ = run("simulate", "job.toml", "fleet.toml", "--folder", name, "--json")
    assert code == 0
    return json.loads(out)


def test_simulate_twice_gives_identical_events(paceline_in):
    first, second = (simulate(paceline_in, name) for name in ("one", "two"))
    assert first["rounds"] == 2
    assert first["accuracy"] == second["accuracy"]
    recorded = [(paceline_in.folder / name / "events.jsonl").read_bytes() for name in ("one", "two")]
    assert recorded[0] == recorded[1]
    assert recorded[0].count(b'"round_closed"') == 2


def test_simulate_tells_what_came_of_it(paceline_in):
    code, out, err = paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "run")
    assert (code, err) == (0, "")
    assert "round 2/2  2 learners" in out
    assert "truancy" in out
    assert (paceline_in.folder / "run/report.html").stat().st_size > 10_000


def test_a_run_is_not_written_over(paceline_in):
    simulate(paceline_in, "run")
    code, _, err = paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "exists and is not empty" in err


def test_time_only_trains_nothing(paceline_in):
    code, out, _ = paceline_in("simulate", "job.toml", "fleet.toml", "--time-only", "--json", "--folder", "run")
    assert code == 0
    assert json.loads(out)["accuracy"] is None


def test_bench_measures_this_device(paceline_in):
    code, out, _ = paceline_in("bench", "job.toml", "--shards", 3, "--json")
    figures = json.loads(out)
    assert code == 0
    assert figures["shards"] == 3
    assert figures["samples_per_second"] > 0
    assert figures["flops"] > 0
    seconds_per_shard = 32 / figures["samples_per_second"]
    assert figures["shards_by_deadline"] == pytest.approx(4 / seconds_per_shard, abs=1)


def change(text, old, new):
    assert old in text
    return text.replace(old, new)


BAD_JOBS = [
    (change(JOB, "rounds = 2", "rounds = 0"), "job.toml: [job]: rounds is 0; it must be at least 1"),
    (change(JOB, "rounds = 2", "rouds = 2"), "unknown key 'rouds'; did you mean 'rounds'?"),
    (change(JOB, "rounds = 2", 'rounds = "two"'), "job.toml: [job] rounds = 'two'"),
    (change(JOB, "deadline_seconds = 4", ""), "deadline_seconds is missing"),
    (change(JOB, '"dab"', '"dap"'), "[allocation]: policy is 'dap'; did you mean 'dab'?"),
    (change(JOB, '"digits"', '"digit"'), "dataset 'digit' is unknown"),
    (change(JOB, "shard_size = 32", "shard_size = -1"), "shard_size is -1"),
    (JOB + "[modle]\n", "unknown table 'modle'; did you mean 'model'?"),
    (JOB + '[model]\nname = "two-mm"\n', "model 'two-mm' is unknown"),
    (JOB + '[optimizer]\nname = "SDG"\n', "optimizer 'SDG' is unknown; did you mean 'SGD'?"),
    (JOB + "[optimizer]\nlearning_rate = 1\n", "SGD has no option 'learning_rate'"),
    (JOB + '[aggregation]\nmethod = "fedprox"\n', "fedprox needs one above 0"),
    ("rounds = [", "job.toml: not TOML"),
]


@pytest.mark.parametrize(("text", "message"), BAD_JOBS)
def test_a_bad_job_gets_one_clear_line(paceline_in, text, message):
    (paceline_in.folder / "job.toml").write_text(text)
    for arguments in (("simulate", "job.toml", "fleet.toml"), ("serve", "job.toml"), ("bench", "job.toml")):
        code, out, err = paceline_in(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("paceline: job.toml: ")
        assert message in err
    assert not (paceline_in.folder / "runs").exists()  # nothing is left of a run that could not start


def test_a_missing_job_gets_one_clear_line(paceline_in):
    assert paceline_in("serve", "jobb.toml")[::2] == (
        2,
        "paceline: jobb.toml: cannot be read: No such file or directory\n",
    )


def test_a_missing_dataset_gets_one_clear_line(paceline_in, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (paceline_in.folder / "job.toml").write_text(change(JOB, '"digits"', '"mnist"'))
    code, _, err = paceline_in("serve", "job.toml")
    assert (code, err.count("\n")) == (2, 1)
    assert "mnist" in err
    assert str(tmp_path / "nowhere") in err


def test_serve_needs_a_job_or_a_run(paceline_in):
    for arguments in ((), ("job.toml", "--resume", "run")):
        code, _, err = paceline_in("serve", *arguments)
        assert (code, err) == (2, "paceline: give a job file, or --resume with the folder of a run\n")


def test_what_is_done_cannot_be_resumed(paceline_in):
    simulate(paceline_in, "run")
    before = (paceline_in.folder / "run/events.jsonl").read_bytes()
    code, _, err = paceline_in("serve", "--resume", "run")
    assert (code, err) == (2, "paceline: run: all 2 rounds are done; there is nothing to resume\n")
    assert (paceline_in.folder / "run/events.jsonl").read_bytes() == before


def test_a_run_that_reached_its_target_is_not_resumed(paceline_in):
    job = paceline_in.folder / "job.toml"
    job.write_text(job.read_text().replace("rounds = 2", "rounds = 50\ntarget_accuracy = 0.3"))
    assert simulate(paceline_in, "run")["rounds"] < 50
    code, _, err = paceline_in("serve", "--resume", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "target_accuracy, 0.3, is reached" in err


@pytest.mark.parametrize("content", ["", "{", '{"port": "x"}'])
def test_a_damaged_entrance_gets_one_clear_line(paceline_in, content):
    simulate(paceline_in, "run")
    events_file = paceline_in.folder / "run/events.jsonl"
    first_round, _, _ = events_file.read_text().partition('{"event":"round_opened","at":4')
    events_file.write_text(first_round[: first_round.index('{"event":"round_opened"')])
    (paceline_in.folder / "run/entrance.json").write_text(content)
    code, _, err = paceline_in("serve", "--resume", "run")
    assert (code, err.count("\n")) == (2, 1)
    assert "entrance.json cannot be read" in err


def test_a_resumed_run_shows_the_same_certificate(tmp_path):
    given = {"cert": "/somewhere/cert.pem", "key": "/somewhere/key.pem", "token": "S3cret"}
    serve._Entrance.of(tmp_path, given).keep(tmp_path, 4711)
    kept = serve._Entrance.of(tmp_path, {})
    assert (kept.cert, kept.key, kept.token, kept.port) == (*given.values(), 4711)
    assert (tmp_path / "entrance.json").stat().st_mode & 0o077 == 0


def test_nothing_is_resumed_from_what_is_no_run(paceline_in):
    code, _, err = paceline_in("serve", "--resume", ".")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not a run folder" in err


@pytest.fixture
def orchestrator(tmp_path):
    """An orchestrator that waits for learners; tells its address."""
    (tmp_path / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "paceline", "serve", "job.toml", "--port", "0", "--token", "S3cret", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        yield json.loads(process.stdout.readline())["url"]
        process.kill()


def test_join_is_refused_with_one_clear_line(orchestrator, paceline_in, monkeypatch):
    code, _, err = paceline_in("join", orchestrator, "--token", "wrong")
    assert (code, err.count("\n")) == (1, 1)
    assert "token" in err
    code, _, err = paceline_in("join", orchestrator, "--token", "S3cret", "--name", "a/b")
    assert (code, err.count("\n")) == (2, 1)
    assert "'a/b' cannot be a learner's name" in err
    monkeypatch.setattr(paceline, "__version__", "0.1.0")
    code, _, err = paceline_in("join", orchestrator, "--token", "S3cret")
    assert (code, err.count("\n")) == (2, 1)
    assert "version mismatch: the orchestrator runs paceline" in err
    assert "the device 0.1.0" in err


def test_join_without_an_orchestrator_gives_up(paceline_in):
    code, _, err = paceline_in("join", "http://127.0.0.1:9", "--patience", "0.1")
    assert (code, err.count("\n")) == (1, 1)
    assert "127.0.0.1:9" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--slowdown", "0.5"), "--slowdown is 0.5; it must be at least 1"),
        (("--max-shards", "0"), "max_shards is 0; it must be at least 1"),
        (("--data", "none.npz"), "none.npz"),
        (("--down-mbit", "0"), "above 0"),
        (("--price", "-1"), "price is -1.0; it must be at least 0"),
        (("--busy-watts", "-1"), "--busy-watts is -1.0; it must be at least 0"),
        (("--joules-per-byte", "inf"), "--joules-per-byte is inf; it must be at least 0"),
        (("--energy", "codecarbn"), "--energy is 'codecarbn'; did you mean 'codecarbon'? Allowed: model, codecarbon"),
        (("--states", "idle"), "--states 'idle', 'idle': allowed: NAME=PROBABILITY, with commas between"),
        (("--states", "idle=0.5,training=often"), "'training=often': allowed: NAME=PROBABILITY, with commas between"),
        (("--states", "idle=2"), "--states 'idle=2', 'idle=2': probability is 2.0; allowed: 0 to 1"),
        (("--states", "idle=0.5"), "the probabilities of states ['idle'] add up to 0.5; they must add up to 1"),
        (("--states", "idle=0.5,idle=0.5"), "states ['idle', 'idle']: names must differ"),
        (("--states", "idle=0.5,trainig=0.5"), "state 'trainig' is unknown; did you mean 'training'? Allowed: idle,"),
    ],
)
def test_bad_options_of_join_get_one_clear_line(paceline_in, options, message):
    code, _, err = paceline_in("join", "http://127.0.0.1:9", *options)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


@pytest.mark.slow
def test_demo_trains_four_devices(tmp_path):
    command = [sys.executable, "-m", "paceline", "demo", "--rounds", "3", "--json", "--folder", "run"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert {"accuracy", "rounds", "truancy_max", "run", "report"} <= set(told)
    assert told["rounds"] == 3
    assert told["accuracy"] > 0.8
    assert (tmp_path / told["report"]).exists()
    taken = {}
    for event in RunFolder.open(tmp_path / told["run"]).events():
        if type(event).__name__ == "ShardsTaken":
            taken.setdefault(event.learner, []).append(event.num_shards)
    assert set(taken) == {"laptop", "old-pc", "jetson", "pi"}
    assert min(taken["laptop"]) > max(taken["pi"])
