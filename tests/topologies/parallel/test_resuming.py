"""A run that was interrupted goes on where it was, and ends with the same model as one that was not."""

import dataclasses
import random

import pytest

from paceline import run
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.report import RunFolder
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RoundSpent, RunEnded, RunStarted
from tests.topologies.parallel.runs import closed, device, of, small_job

JOB = small_job(rounds=6)


def fleet():
    return VirtualFleet([device("a", max_shards=2)])


class Crash(Exception):
    """Ends the process, as it were."""


def crash_at(kind, number):
    def watch(event):
        if isinstance(event, kind) and event.round == number:
            raise Crash

    return watch


@pytest.mark.parametrize(
    ("kind", "number", "first"), [(RoundOpened, 1, 1), (RoundClosed, 4, 5), (RoundOpened, 5, 5)], ids=str
)
def test_an_interrupted_run_ends_as_if_it_had_not_been(kind, number, first, tmp_path):
    whole = run.train(JOB, fleet(), folder=tmp_path / "whole")
    with pytest.raises(Crash):
        run.train(JOB, fleet(), folder=tmp_path / "run", callbacks=[crash_at(kind, number)])
    resumed = []
    ended = run.reopen(tmp_path / "run").start(fleet(), [resumed.append])
    assert [event.round for event in closed(resumed)] == list(range(first, 7))
    assert resumed[0].first_round == first
    assert (resumed[0].at > 0) == (first > 1)  # time goes on, too
    assert [event.round for event in closed(RunFolder.open(ended.folder).events())] == [1, 2, 3, 4, 5, 6]
    assert all(ended.state[name].equal(tensor) for name, tensor in whole.state.items())
    assert (ended.metrics, ended.accuracy) == (whole.metrics, whole.accuracy)


def test_runs_with_nothing_left_to_do_are_not_resumed(tmp_path):
    run.train(JOB, fleet(), folder=tmp_path / "done")
    with pytest.raises(ConfigError, match="done: all 6 rounds are done; there is nothing to resume"):
        run.reopen(tmp_path / "done")
    reached = small_job(rounds=50, local_epochs=2, target="accuracy >= 0.5")
    run.train(reached, fleet(), folder=tmp_path / "reached")
    with pytest.raises(ConfigError, match=r"target, accuracy >= 0.5, is reached; there is nothing to resume"):
        run.reopen(tmp_path / "reached")


def test_the_record_has_the_time_of_the_host_whatever_clocks_devices_have(tmp_path):
    prepared = run.prepare(JOB, tmp_path / "run")
    make = prepared.plan.member

    def member(node, host):
        return make(dataclasses.replace(node, now=lambda: 1e9 + node.now()), host)

    prepared.plan.member = member
    with pytest.raises(Crash):
        prepared.start(fleet(), [crash_at(RoundClosed, 3)])
    kept = list(RunFolder.open(tmp_path / "run").events())
    assert [event.at for event in kept] == sorted(event.at for event in kept)
    assert of(RoundSpent, kept)
    reopened = run.reopen(tmp_path / "run")
    reopened.folder.close()
    assert reopened.started_at == pytest.approx(closed(kept)[-1].at)


def cut_off(folder, kind):
    """Leave of a record what comes before the last event of a kind, as a crash does."""
    events = folder / "events.jsonl"
    events.write_text(events.read_text().rpartition(f'{{"event":"{kind}"')[0])


@pytest.mark.parametrize("last", ["run_ended", "round_closed"])
@pytest.mark.parametrize(
    ("job", "reason"),
    [(JOB, "rounds done"), (small_job(rounds=50, local_epochs=2, target="accuracy >= 0.5"), "target reached")],
    ids=["rounds", "target"],
)
def test_a_run_whose_last_round_was_saved_only_records_its_end(job, reason, last, tmp_path):
    folder = tmp_path / "run"
    whole = run.train(job, fleet(), folder=folder)
    was_closed, (end,) = closed(RunFolder.open(folder).events()), of(RunEnded, RunFolder.open(folder).events())
    cut_off(folder, last)
    resumed, nobody = [], VirtualFleet([device("a", joins_at_seconds=1e6)])
    ended = run.resume(folder, nobody, callbacks=[resumed.append], progress=False)
    assert list(map(type, resumed)) == [RunStarted, RunEnded]
    recorded = list(RunFolder.open(folder).events())
    assert closed(recorded) == was_closed
    (again,) = of(RunEnded, recorded)
    assert (again.reason, again.rounds, again.loss) == (reason, end.rounds, end.loss)
    assert all(ended.state[name].equal(tensor) for name, tensor in whole.state.items())
    assert ended.metrics == whole.metrics
    with pytest.raises(ConfigError, match="there is nothing to resume"):
        run.reopen(folder)


def test_rounds_without_improvement_count_across_a_resume(tmp_path):
    still = small_job(rounds=50, optimizer={"name": "SGD", "lr": 0.0}, patience=4, watch="max accuracy")
    with pytest.raises(Crash):
        run.train(still, fleet(), folder=tmp_path / "run", callbacks=[crash_at(RoundOpened, 4)])
    events = []
    run.reopen(tmp_path / "run").start(fleet(), [events.append])
    (ended,) = of(RunEnded, events)
    assert (ended.reason, ended.rounds) == ("no improvement", 5)
    with pytest.raises(ConfigError, match="max accuracy has not improved for 4 rounds; there is nothing to resume"):
        run.reopen(tmp_path / "run")


PLAYING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from paceline import run
from tests.topologies.parallel.test_resuming import LONG, fleet
folder, watch = Path(sys.argv[1]), lambda event: print(getattr(event, "round", 0), flush=True)
if (folder / "job.json").exists():
    run.resume(folder, fleet(), callbacks=[watch], progress=False)
else:
    run.train(LONG, fleet(), folder=folder, overwrite=folder.exists(), callbacks=[watch], progress=False)
print("over", flush=True)
"""
LONG = small_job(rounds=16, aggregation="fedavgm")


@pytest.mark.long
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(spawn, tmp_path, request):
    whole, chance = run.train(LONG, fleet(), folder=tmp_path / "whole", progress=False), random.Random(0)
    num_killed = 0
    while True:
        process = spawn(PLAYING, tmp_path / "run", request.config.rootpath)
        lines = [line for line, _ in zip(process.stdout, range(chance.randint(1, 90)), strict=False)]
        if "over\n" in lines:
            break
        process.kill()
        process.communicate()
        num_killed += 1
    assert num_killed >= 3
    ended = RunFolder.open(tmp_path / "run")
    assert [event.round for event in closed(ended.events())] == list(range(1, 17))
    newest = checkpoints.read(checkpoints.newest_in(ended.path))
    assert all(newest[name].equal(tensor) for name, tensor in whole.state.items())
