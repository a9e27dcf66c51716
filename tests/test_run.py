"""One way in: folders of runs, callbacks, progress, and the run that is handed back."""

import asyncio
import itertools
import re
from pathlib import Path

import msgspec
import pytest
from torch import nn

import paceline
from paceline import Job, Pool, StopRun, VirtualDevice, VirtualFleet, resume, train
from paceline.errors import ConfigError
from paceline.report import RunFolder
from paceline.run import prepare
from paceline.topologies.events import STOPPED, WaitingForLearners
from paceline.topologies.gossip.events import EpochEnded, GossipEnded
from paceline.topologies.parallel.events import JobEnded, PoolEnded, RoundClosed, RunEnded
from paceline.topologies.split.events import SplitEnded, SplitEpochEnded
from tests.fleets.test_every_topology import FLEETS, JOBS

JOB = Job(rounds=2, deadline_seconds=5)
ENDS = RunEnded | PoolEnded | GossipEnded | SplitEnded


def fleet():
    return VirtualFleet([VirtualDevice(name="pi", samples_per_second=300)])


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("job", "on", "message"),
    [
        ("job.toml", fleet(), r"^job is 'job.toml'; it must be a job, such as Job\(…\), or what load_job returns$"),
        (JOB, "fleet.toml", r"^fleet is 'fleet.toml'; it must be a fleet, such as VirtualFleet\(\[…\]\)$"),
        (JOB, None, r"^fleet is None; it must be a fleet, such as VirtualFleet\(\[…\]\)$"),
    ],
)
def test_what_is_no_job_or_no_fleet_is_named(job, on, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        train(job, on)
    assert not list(tmp_path.iterdir())


# Folders.


def test_folders_of_the_same_second_are_numbered_and_sorted():
    runs = [train(JOB, fleet(), progress=False).folder for _ in range(3)]
    assert len(set(runs)) == 3
    assert sorted(runs) == runs
    assert all(re.fullmatch(r"runs/\d{8}-\d{6}(-\d\d)?", str(run)) for run in runs)


def test_a_folder_is_used_again_only_if_asked():
    first = train(JOB, fleet(), folder="runs/x", progress=False)
    with pytest.raises(ConfigError, match="runs/x exists and is not empty: give the run another name, overwrite"):
        train(JOB, fleet(), folder="runs/x", progress=False)
    first.report()
    again = train(Job(rounds=1, deadline_seconds=5), fleet(), folder="runs/x", overwrite=True, progress=False)
    assert again.metrics["rounds"] == 1
    kept = sorted(path.name for path in (again.folder / "checkpoints").iterdir())
    assert kept == ["best.safetensors", "round-00001.safetensors"]
    pool = Pool(jobs=[Job(rounds=1, deadline_seconds=5, name="a")])
    for _ in range(2):  # another kind of run, and one with runs in it
        assert train(pool, fleet(), folder="runs/x", overwrite=True, progress=False).jobs["a"].accuracy > 0.1
    train(JOB, fleet(), folder="runs/new", overwrite=True, progress=False)


def test_what_is_no_run_or_is_being_recorded_is_not_overwritten(tmp_path):
    run = train(JOB, fleet(), folder="runs/x", progress=False)
    (run.folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"runs/x holds notes.txt, which is not of a run: move it elsewhere first"):
        train(JOB, fleet(), folder="runs/x", overwrite=True, progress=False)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("mine")
    with pytest.raises(ConfigError, match="thesis is not a run folder"):
        train(JOB, fleet(), folder="thesis", overwrite=True, progress=False)
    recorded = pytest.raises(ConfigError, match="runs/open: another process is recording this run; stop it first")
    with prepare(JOB, "runs/open").folder, recorded:
        train(JOB, fleet(), folder="runs/open", overwrite=True, progress=False)
    assert (tmp_path / "thesis/chapter.tex").read_text() == (run.folder / "notes.txt").read_text() == "mine"
    assert len(list(RunFolder.open(run.folder).events())) > 3


def test_a_job_that_cannot_be_prepared_deletes_nothing():
    run = train(JOB, fleet(), folder="runs/x", progress=False)
    with pytest.raises(ConfigError, match="the fleet has 1 device; the job needs 2"):
        train(Job(deadline_seconds=5, min_learners=2), fleet(), folder="runs/x", overwrite=True, progress=False)
    assert run.summary().rounds == 2


# What a run starts from.


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run that has learned something; the others start from it."""
    return train(JOB, fleet(), folder=tmp_path_factory.mktemp("learned") / "run", progress=False)


STARTS = {
    "model": lambda run: run.model(),
    "network": lambda run: run.model().model,
    "state": lambda run: run.state,
    "folder": lambda run: run.folder,
    "file": lambda run: str(run.folder / "checkpoints/round-00002.safetensors"),
}


@pytest.mark.parametrize("kind", STARTS)
def test_a_run_starts_from_what_was_learned(learned, kind):
    still = msgspec.structs.replace(JOB, rounds=1, optimizer={"name": "SGD", "lr": 0.0})
    run = train(still, fleet(), start=STARTS[kind](learned), folder="runs/x", progress=False)
    assert (run.loss, run.accuracy) == pytest.approx((learned.loss, learned.accuracy))
    start = Path(RunFolder.open(run.folder).settings["model"]["start"])
    assert start == Path.cwd() / "runs/x/start.safetensors" if kind in ("model", "network", "state") else start.exists()


def test_what_was_given_in_memory_is_there_for_a_resume(learned):
    def stop(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(JOB, fleet(), start=learned.state, folder="runs/x", callbacks=[stop], progress=False)
    resumed = resume("runs/x", fleet(), progress=False)
    whole = train(JOB, fleet(), start=learned.state, folder="runs/y", progress=False)
    assert all(resumed.state[name].equal(tensor) for name, tensor in whole.state.items())


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (3, r"^start is a int; it must be a model, its state, or a run's folder or file$"),
        ({"weight": 3}, r"^start is a dict; it must be a model"),
        ("nowhere", r"nowhere: there is neither a file nor a run that learned something$"),
        (nn.Linear(2, 2), r"start.safetensors: it does not fit the model of this job: it has model.bias$"),
    ],
)
def test_a_wrong_start_is_one_line_and_leaves_no_folder(start, message, tmp_path):
    with pytest.raises(ConfigError, match=message) as raised:
        train(JOB, fleet(), start=start, progress=False)
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_a_start_is_for_one_job(learned):
    pool = Pool(jobs=[Job(rounds=1, deadline_seconds=5, name="a")])
    with pytest.raises(ConfigError, match=r"start is for one job; give each job of a pool its own, \[model\] start"):
        train(pool, fleet(), start=learned.state, progress=False)


def test_a_run_is_not_overwritten_by_one_that_starts_from_it():
    first = train(JOB, fleet(), folder="runs/x", progress=False)
    with pytest.raises(ConfigError, match="start is runs/x, which overwriting runs/x would delete: name another"):
        train(JOB, fleet(), start=first.folder, folder="runs/x", overwrite=True, progress=False)
    again = train(JOB, fleet(), start=first.state, folder="runs/x", overwrite=True, progress=False)
    assert again.loss < first.loss


# More rounds.


def test_a_run_that_is_over_goes_on_for_more_rounds_as_if_it_had_had_them():
    whole = train(msgspec.structs.replace(JOB, rounds=4), fleet(), folder="runs/whole", progress=False)
    train(JOB, fleet(), folder="runs/x", progress=False)
    run = resume("runs/x", fleet(), rounds=4, progress=False)
    assert run.metrics == whole.metrics
    assert all(run.state[name].equal(tensor) for name, tensor in whole.state.items())
    assert RunFolder.open(run.folder).settings["job"]["rounds"] == 4
    with pytest.raises(ConfigError, match="runs/x: all 3 rounds are done; there is nothing to resume"):
        resume("runs/x", fleet(), rounds=3)


def test_only_jobs_with_rounds_get_more():
    train(Pool(jobs=[Job(rounds=1, deadline_seconds=5, name="a")]), fleet(), folder="runs/x", progress=False)
    with pytest.raises(ConfigError, match=r"rounds are for jobs that have rounds; this is a \[pool\]"):
        resume("runs/x", fleet(), rounds=3)
    train(JOB, fleet(), folder="runs/y", progress=False)
    with pytest.raises(ConfigError, match="rounds"):
        resume("runs/y", fleet(), rounds=0)


# What is handed back.


def test_a_run_is_shown_in_one_line_and_as_its_page():
    run = train(JOB, fleet(), folder="runs/x", progress=False)
    assert re.fullmatch(r"Run\(runs/x: loss \d\.\d+, accuracy 0\.\d+, rounds 2\)", repr(run))
    shown = run._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert 'sandbox="allow-scripts"' in shown
    pool = train(Pool(jobs=[Job(rounds=1, deadline_seconds=5, name="a")]), fleet(), folder="runs/y", progress=False)
    assert re.fullmatch(r"Run\(runs/y: spent 0, jobs a\)", repr(pool))


def test_progress_is_lines_on_standard_error_unless_it_is_off(capfd):
    train(JOB, fleet())
    out, err = capfd.readouterr()
    assert out == ""
    assert [line[:9] for line in err.splitlines() if re.match(r"round \d/", line)] == ["round 1/2", "round 2/2"]
    train(JOB, fleet(), progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_run_inside_a_running_loop():
    async def main():
        return train(JOB, fleet(), folder="runs/inside", progress=False)

    inside = asyncio.run(main())
    outside = train(JOB, fleet(), folder="runs/outside", progress=False)
    assert inside.metrics == outside.metrics
    assert (inside.folder / "events.jsonl").read_bytes() == (outside.folder / "events.jsonl").read_bytes()


# Callbacks that stop a run.


def stop_at(number, kind=None):
    """Stop at the event of a number, of a kind if that is given."""
    counter = itertools.count(1)

    def callback(event, *job):
        if (kind is None or isinstance(event, kind)) and next(counter) == number:
            raise StopRun

    return callback


def reason_of(run):
    """Why a run ended, by its events."""
    (reason,) = [event.reason for event in RunFolder.open(run.folder).events() if isinstance(event, ENDS)]
    return reason


def long_job(kind):
    """A job of a kind that would take long."""
    job = JOBS[kind]
    if isinstance(job, Pool):
        return msgspec.structs.replace(job, jobs=[msgspec.structs.replace(one, rounds=500) for one in job.jobs])
    return msgspec.structs.replace(job, **{"rounds" if isinstance(job, Job) else "epochs": 500})


@pytest.mark.parametrize("number", [1, 5, 20, 60])
@pytest.mark.parametrize("kind", JOBS)
def test_a_callback_may_stop_any_kind_of_run(kind, number):
    run = train(long_job(kind), FLEETS["virtual"](), callbacks=[stop_at(number)], progress=False)
    assert reason_of(run) == STOPPED
    for one in run.jobs.values() or (run,):
        assert one.state
    assert STOPPED in (run.summary()["ended"] or "")


def test_a_run_stops_after_the_round_in_progress():
    seen = []
    job = Job(rounds=50, deadline_seconds=5)
    run = train(job, fleet(), callbacks=[stop_at(3, RoundClosed), seen.append], progress=False)
    assert (run.metrics["rounds"], run.summary().rounds) == (3, 3)
    assert any(isinstance(event, RunEnded) for event in seen)  # other callbacks get all events
    assert run.accuracy > 0.5
    assert run.model() is not None
    assert reason_of(run) == STOPPED


def test_a_run_that_waits_for_learners_can_be_stopped():
    devices = [
        VirtualDevice(name=f"pi-{number}", samples_per_second=300, joins_at_seconds=50 * number) for number in range(2)
    ]
    job = Job(rounds=3, deadline_seconds=5, min_learners=2)
    run = train(job, VirtualFleet(devices), callbacks=[stop_at(1, WaitingForLearners)], progress=False)
    assert run.metrics["rounds"] == 0
    assert run.summary().seconds < 50


def test_all_jobs_of_a_pool_stop():
    jobs = [Job(rounds=50, deadline_seconds=5, name=name) for name in "abc"]
    devices = VirtualFleet([VirtualDevice(name="pi", count=2, samples_per_second=300)])
    run = train(Pool(jobs=jobs), devices, callbacks=[stop_at(2, RoundClosed)], progress=False)
    ends = [event for event in RunFolder.open(run.folder).events() if isinstance(event, JobEnded | PoolEnded)]
    assert [event.reason for event in ends] == [STOPPED] * 4
    assert {event.job for event in ends[:-1]} == set("abc")
    assert sum(one.metrics["rounds"] for one in run.jobs.values()) in (2, 3)


@pytest.mark.parametrize(("exchange", "overlaps"), [("mixing", False), ("mixing", True), ("push-sum", False)])
@pytest.mark.parametrize("number", [10, 30, 45, 80])
def test_peers_of_different_speed_stop_wherever_they_are(exchange, overlaps, number):
    rates = enumerate((300, 800, 2000, 5000))
    devices = [VirtualDevice(name=f"peer-{i}", samples_per_second=rate) for i, rate in rates]
    job = paceline.GossipJob(epochs=50, min_peers=4, exchange=exchange, overlaps=overlaps)
    run = train(job, VirtualFleet(devices), callbacks=[stop_at(number)], progress=False)
    assert len(run.metrics["averaged"]) == 4
    assert reason_of(run) == STOPPED
    assert all(row["epoch"] < 30 for row in run.summary().tables["epochs"].records())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "event"),
    [("job", RoundClosed), ("gossip", EpochEnded), pytest.param("split", SplitEpochEnded, marks=pytest.mark.long)],
)
def test_a_callback_stops_processes(kind, event):
    run = train(long_job(kind), FLEETS["local"](), callbacks=[stop_at(1, event)], progress=False)
    assert reason_of(run) == STOPPED
    assert run.accuracy > 0.3
