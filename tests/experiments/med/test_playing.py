"""Trials are fair: the same devices in the same states, whatever the scheme; and time does not depend on gradients."""

import pytest

from paceline.fleets.modelled import ModelledLoad
from paceline.learning.models import ModelSpec
from paceline.topologies.parallel.events import JobsAllocated, RoundClosed
from papers.med.playing import job_row, learning_rows, play, time_rows
from papers.med.setting import SCHEMES
from reproduction.trials import Trial
from tests.experiments.med.cases import ROUNDS, case

LARGE = ModelSpec(name="three-nn")  # whose upload takes longer than a minibatch


def test_schemes_differ_in_where_learners_are_and_not_in_the_states_they_are_in(monkeypatch):
    drawn = {}
    begin_round = ModelledLoad.begin_round

    def begin(load):
        begin_round(load)
        drawn.setdefault(load.device.name, []).append(load.state)

    monkeypatch.setattr(ModelledLoad, "begin_round", begin)
    seen, num_allocations = {}, {}
    for scheme in SCHEMES:
        drawn.clear()
        allocations = play(case(), scheme).events_of(JobsAllocated)
        assert [event.waived for event in allocations if event.waived] == []
        num_allocations[scheme] = len(allocations)
        seen[scheme] = {name: states[: 1 + ROUNDS] for name, states in drawn.items()}
    assert num_allocations == {"med": 1, "mmtt-ideal": ROUNDS, "mmtt-uncertain": 1, "med-held-back": 1}
    assert all(len(states) == 1 + ROUNDS for states in seen["med"].values())  # one when it joins, one a round
    assert len({tuple(states) for states in seen["med"].values()}) > 1
    assert all(states == seen["med"] for states in seen.values())


def test_time_does_not_depend_on_gradients():
    rows = list(learning_rows(case()))
    assert [row["scheme"] for row in rows] == [scheme for scheme in SCHEMES for _ in range(2)]
    assert max(row["apart"] for row in rows) < 1e-9
    assert min(row["accuracy"] for row in rows) > 50
    timed = [{**row, "part": "learning", "accuracy": None, "apart": None} for row in time_rows(case())]
    assert timed == [{**row, "accuracy": None, "apart": None} for row in rows]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_who_halts_is_in_time_in_every_state(scheme):
    rows = [
        job_row(trial, job)
        for seed in range(3)
        for trial in [play(case(seed=seed, scale=2, deadline_seconds=1.2, model=LARGE), scheme)]
        for job in trial.jobs
    ]
    assert max(row["drop"] for row in rows) > 0
    assert {row["late"] for row in rows} == {0}


def test_a_row_is_the_mean_of_the_rounds():
    def closed(round, **figures):
        common = {"num_learners": 2, "num_updates": 2, "num_samples": 9, "num_shards": 1, "truancy": 0.0}
        return RoundClosed(at=0.0, round=round, **common, **figures)

    rounds = [
        closed(1, seconds=10.0, fulfilment=1.0, is_satisfied=True, occupancy=0.5),
        closed(2, seconds=20.0, fulfilment=0.9, is_satisfied=False, occupancy=1.0, late=("a",)),
    ]
    allocated = JobsAllocated(at=0.0, placements={}, expected_seconds=10.0, bound=9.0, cost=1.0, waived=("deadlines",))
    assert job_row(Trial(events=[allocated], jobs={"one": Trial(events=rounds)}), "one") == {
        "job": "one",
        "seconds": 15.0,
        "satisfaction": 50.0,
        "fulfilment": 95.0,
        "drop": 5.0,
        "occupancy": 75.0,
        "late": 1,
        "allocations": 1,
        "waived": 1,
        "unproven": 1,
    }
