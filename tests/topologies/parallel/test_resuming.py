"""A run that was interrupted goes on where it was, and ends with the same model as one that was not."""

import pytest

from paceline import run
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.report import RunFolder
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RunEnded
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
