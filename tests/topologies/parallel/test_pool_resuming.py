"""A pool that was killed goes on: no round counts twice, and nothing is paid twice."""

import csv
import math
import random
import shutil

import msgspec
import pytest

from paceline import run
from paceline.allocation import MedAllocation
from paceline.errors import ConfigError, PacelineError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.report import RunFolder
from paceline.topologies.parallel import events
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.learned_model import LearnedModel
from tests.topologies.parallel.runs import of, paid_fleet

DATA = DataSpec(name="digits", shard_size=64)
RULES = {"deadline_seconds": 12.0, "benchmark_shards": 2, "data": DATA}
POOL = Pool(
    jobs=(
        Job(name="a", rounds=3, **RULES),
        Job(name="b", rounds=4, aggregation={"method": "fedadam"}, **RULES),
        Job(name="hopeless", rounds=1, **{**RULES, "deadline_seconds": 1e-4}),
    ),
    allocation=MedAllocation(budget=80.0, held_back=0.5),
    min_learners=3,
    total_budget=400.0,
    patience_seconds=1.0,
)


def fleet():
    return VirtualFleet(paid_fleet(3))


def copying(folder, copies):
    """Copy the folder as it is when so many events are recorded: what is left if the pool is killed right then.

    Args:
        copies: where to, by the number of events.
    """
    num_seen = 0

    def watch(event, job):
        nonlocal num_seen
        num_seen += 1
        if num_seen in copies:
            shutil.copytree(folder, copies[num_seen])

    return watch


def check_record(folder):
    """Each round is closed once and paid once, and all adds up."""
    kept = RunFolder.open(folder)
    pool, jobs = list(kept.events()), {name: list(job.events()) for name, job in kept.jobs().items()}
    paid = [(line.job, line.round, line.learner) for line in of(events.LearnerPaid, pool)]
    assert len(paid) == len(set(paid))
    for name, happened in jobs.items():
        closed = of(events.RoundClosed, happened)
        assert [event.round for event in closed] == list(range(1, len(closed) + 1))
        lines = [line for line in of(events.LearnerPaid, pool) if line.job == name]
        for event in closed:
            mine = [line for line in lines if line.round == event.round]
            assert sum(line.num_samples for line in mine) == event.num_samples
            assert len(mine) == event.num_learners
        assert {line.round for line in lines} <= {event.round for event in closed}
    spent = math.fsum(line.amount for line in of(events.LearnerPaid, pool))
    assert spent <= POOL.total_budget
    with (folder / "ledger.csv").open() as file:
        assert math.fsum(float(row["amount"]) for row in csv.DictReader(file)) == pytest.approx(spent)
    return pool, jobs, spent


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Folders of one run, killed at events of each kind and at some more, by the number of events."""
    root, seen = tmp_path_factory.mktemp("pools"), []
    run.train(POOL, fleet(), folder=root / "first", callbacks=[lambda *event: seen.append(event)], progress=False)
    first = {}
    for number, (event, job) in enumerate(seen, 1):
        first.setdefault((type(event), bool(job)), number)
    last_paid = max(number for number, (event, _) in enumerate(seen, 1) if isinstance(event, events.LearnerPaid))
    numbers = {*first.values(), last_paid, *random.Random(0).sample(range(1, len(seen) + 1), 4)}
    folders = {number: root / f"at-{number}" for number in sorted(numbers)}
    run.train(POOL, fleet(), folder=root / "again", callbacks=[copying(root / "again", folders)], progress=False)
    return folders


def test_a_pool_that_is_killed_at_any_event_goes_on_to_the_same_end(killed):
    assert len(killed) >= 20
    for folder in killed.values():
        if of(events.PoolEnded, RunFolder.open(folder).events()):
            continue
        run.reopen(folder).start(fleet())
        pool, jobs, spent = check_record(folder)
        num_closed = {name: len(of(events.RoundClosed, happened)) for name, happened in jobs.items()}
        assert num_closed == {"a": 3, "b": 4, "hopeless": 0}, folder
        ended = {event.job: event.reason for event in of(events.JobEnded, pool)}
        assert ended == {"a": "rounds done", "b": "rounds done", "hopeless": "infeasible"}
        assert pool[-1].spent == pytest.approx(spent)
        times = [round(event.at, 4) for event in pool]
        assert times == sorted(times)


def test_killed_again_and_again_it_still_ends_and_the_books_are_in_order(tmp_path):
    folder, chance = tmp_path / "run-0", random.Random(1)
    run.train(POOL, fleet(), folder=tmp_path / "run", callbacks=[copying(tmp_path / "run", {60: folder})])
    for number in range(1, 4):
        following = tmp_path / f"run-{number}"
        run.reopen(folder).start(fleet(), [copying(folder, {chance.randint(20, 120): following})])
        check_record(folder)
        check_record(following)
        folder = following
    ended = run.reopen(folder).start(fleet())
    _, jobs, spent = check_record(folder)
    assert ended.metrics["spent"] == pytest.approx(spent)
    assert len(of(events.RoundClosed, jobs["b"])) == 4
    assert ended.jobs["b"].accuracy > 0.5
    assert set(ended.jobs) == {"a", "b", "hopeless"}
    ended.report()
    with pytest.raises(ConfigError, match=f"{folder.name}: all jobs of the pool are over; there is nothing to resume"):
        run.reopen(folder)


def test_what_was_left_of_the_budget_is_what_is_left(tmp_path):
    poor, folder = msgspec.structs.replace(POOL, total_budget=100.0), tmp_path / "killed"
    run.train(poor, fleet(), folder=tmp_path / "run", callbacks=[copying(tmp_path / "run", {150: folder})])
    ended = run.reopen(folder).start(fleet())
    assert 0 < ended.metrics["spent"] <= 100.0
    reasons = {event.reason for event in of(events.JobEnded, RunFolder.open(folder).events())}
    assert "budget spent" in reasons


def test_a_job_that_was_stopped_goes_on_and_one_that_was_cancelled_does_not(tmp_path):
    folder = tmp_path / "run"

    def stop(event, job):
        if isinstance(event, events.RoundClosed):
            raise run.StopRun

    run.train(POOL, fleet(), folder=folder, callbacks=[stop], progress=False)
    assert "stopped by a callback" in {event.reason for event in of(events.JobEnded, RunFolder.open(folder).events())}
    run.reopen(folder).start(fleet())
    check_record(folder)
    ended = {event.job: event.reason for event in of(events.JobEnded, RunFolder.open(folder).events())}
    assert ended == {"a": "rounds done", "b": "rounds done", "hopeless": "infeasible"}


def test_a_pool_that_was_killed_before_it_began_is_started_anew(tmp_path):
    prepared = run.prepare(POOL, tmp_path / "run")
    prepared.folder.close()
    with pytest.raises(PacelineError, match="the pool was interrupted before it began"):
        run.reopen(tmp_path / "run")


def test_the_folder_of_a_job_that_is_not_whole_is_made_anew(tmp_path):
    folder = tmp_path / "killed"
    run.train(POOL, fleet(), folder=tmp_path / "run", callbacks=[copying(tmp_path / "run", {1: folder})])
    half = folder / "jobs/b"
    half.mkdir()
    (half / "versions.json").write_text("{}")
    run.reopen(folder).start(fleet())
    check_record(folder)


@pytest.mark.parametrize("jobs_too", [False, True])
def test_a_pool_whose_jobs_are_over_only_records_the_end(jobs_too, tmp_path):
    """The process ended before the pool could say so; or a loss of power took what jobs had said last, too."""
    folder = tmp_path / "run"
    whole = run.train(POOL, fleet(), folder=folder, progress=False)
    before, jobs_before, spent = check_record(folder)
    cut_off(folder, "pool_ended")
    for job in folder.glob("jobs/*") if jobs_too else ():
        cut_off(job, "run_ended")
    resumed = []
    nobody = VirtualFleet([msgspec.structs.replace(device, joins_at_seconds=1e6) for device in paid_fleet(3)])
    ended = run.resume(folder, nobody, callbacks=[lambda event, job: resumed.append(event)], progress=False)
    pool, jobs, _ = check_record(folder)
    assert of(events.JobEnded, pool) == of(events.JobEnded, before)
    assert [(event.reason, event.spent) for event in of(events.PoolEnded, pool)] == [("all jobs are over", spent)]
    assert not of(events.RoundOpened, resumed)
    for name, happened in jobs.items():
        assert of(events.RoundClosed, happened) == of(events.RoundClosed, jobs_before[name])
        reasons = [(event.reason, event.rounds) for event in of(events.RunEnded, happened)]
        assert reasons == [(event.reason, event.rounds) for event in of(events.RunEnded, jobs_before[name])]
    assert ended.metrics == whole.metrics
    with pytest.raises(ConfigError, match="all jobs of the pool are over; there is nothing to resume"):
        run.reopen(folder)


def test_what_was_paid_for_a_round_that_ended_its_job_stays_paid(tmp_path, monkeypatch):
    folder, aggregate = tmp_path / "killed", LearnedModel._aggregate

    def fail(model, closed):
        if model._job.name == "b" and closed.number == 2:
            raise ConfigError("it fails")
        aggregate(model, closed)

    def copy(event, job):
        if isinstance(event, events.JobEnded) and event.job == "b":
            shutil.copytree(tmp_path / "run", folder)

    monkeypatch.setattr(LearnedModel, "_aggregate", fail)
    run.train(POOL, fleet(), folder=tmp_path / "run", callbacks=[copy], progress=False)
    paid = of(events.LearnerPaid, RunFolder.open(folder).events())
    assert math.fsum(line.amount for line in paid if (line.job, line.round) == ("b", 2)) > 0
    ended = run.resume(folder, fleet(), progress=False)
    lines = of(events.LearnerPaid, RunFolder.open(folder).events())
    assert [line for line in lines if line.job == "b"] == [line for line in paid if line.job == "b"]
    assert ended.metrics["spent"] == pytest.approx(math.fsum(line.amount for line in lines))


def cut_off(folder, kind):
    """Leave of a record what comes before the last event of a kind, as a crash does."""
    record = folder / "events.jsonl"
    record.write_text(record.read_text().rpartition(f'{{"event":"{kind}"')[0])


def test_a_round_that_is_saved_and_not_recorded_counts_and_is_paid_once(killed, tmp_path):
    """The process ended between the two, or a loss of power took the end of the record."""
    whole = max(
        (folder for folder in killed.values() if of(events.RoundClosed, job_events(folder, "b"))),
        key=lambda folder: len(of(events.RoundClosed, job_events(folder, "b"))),
    )
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    record = folder / "jobs/b/events.jsonl"
    kept = record.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(kept) if b'"round_closed"' in line)
    record.write_bytes(b"".join(kept[:last]))
    record_of_pool = folder / "events.jsonl"
    ended = [b'"job_ended"', b'"pool_ended"']
    lines = record_of_pool.read_bytes().splitlines(keepends=True)
    record_of_pool.write_bytes(b"".join(line for line in lines if not any(kind in line for kind in ended)))
    run.reopen(folder).start(fleet())
    pool, jobs, _ = check_record(folder)
    assert len(of(events.RoundClosed, jobs["b"])) == 4
    assert {event.job for event in of(events.JobEnded, pool)} == {"a", "b", "hopeless"}


def job_events(folder, name):
    job = RunFolder.open(folder).jobs().get(name)
    return [] if job is None else job.events()
