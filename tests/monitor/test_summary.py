"""A run is summed up from its events alone."""

import sys

import pytest

from paceline.errors import ConfigError
from paceline.monitor import Footprint, LearnerRound, summarise
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import (
    DeviceMeasured,
    RoundClosed,
    RoundOpened,
    RoundSpent,
    RunEnded,
    RunStarted,
    ShardsAdded,
    ShardsTaken,
    UpdateAccepted,
    UpdateAudited,
    UpdateRefused,
)
from tests.monitor.synthetic import MODEL_BYTES, POWER, FakeLearner, run_events


def one_round(*between, late=(), deadline_seconds=2.0, seconds=1.8, **closing):
    """A round with these events in it."""
    values = {"num_learners": 1, "num_updates": 1, "num_samples": 64, "num_shards": 2} | closing
    truancy = seconds / deadline_seconds - 1
    return [
        RoundOpened(at=10.0, round=1, deadline_seconds=deadline_seconds, num_learners=1),
        *between,
        RoundClosed(at=10 + seconds, round=1, seconds=seconds, truancy=truancy, late=late, **values),
    ]


TAKEN = ShardsTaken(at=10.2, round=1, learner="pi", num_shards=2, seconds=0.2)
ACCEPTED = UpdateAccepted(at=11.8, round=1, learner="pi", num_samples=64, seconds=1.8)


def test_nothing_recorded():
    summary = summarise([])
    assert (summary.started, summary.ended, summary.rounds, summary.learners) == (None, None, (), ())
    assert summary.accuracy is summary.truancy_max is summary.truancy_mean is summary.deadline_use is None


def test_a_round_seen_from_outside():
    summary = summarise(one_round(TAKEN, ACCEPTED))
    (learner,) = summary.learners
    assert learner.rounds == (
        LearnerRound(round=1, num_shards=2, num_samples=64, start_seconds=0.2, arrival_seconds=1.8, outcome="accepted"),
    )
    assert learner.rounds[0].busy_seconds == pytest.approx(1.6)
    assert not learner.rounds[0].is_told
    assert learner.deadline_use == summary.deadline_use == pytest.approx(0.8)
    assert summary.truancy_max == summary.truancy_mean == pytest.approx(-0.1)


def test_further_shards_are_added():
    more = ShardsAdded(at=11.0, round=1, learner="pi", num_shards=3, seconds=1.0)
    (learner,) = summarise(one_round(TAKEN, more, more, ACCEPTED)).learners
    assert (learner.num_shards, learner.rounds[0].start_seconds) == (8, 0.2)


def test_a_round_told_by_the_learner():
    spent = RoundSpent(
        at=11.9,
        learner="pi",
        round=1,
        deadline_seconds=2.0,
        start_seconds=0.1,
        num_shards=2,
        num_samples=64,
        download_seconds=0.3,
        train_seconds=1.2,
        upload_seconds=0.2,
        is_halted=True,
        is_accepted=True,
    )
    (learner,) = summarise([*one_round(TAKEN, ACCEPTED), spent]).learners  # it may be told after the round closed
    (work,) = learner.rounds
    assert (work.download_seconds, work.train_seconds, work.upload_seconds) == (0.3, 1.2, 0.2)
    assert work.is_told and work.is_halted and work.outcome == "accepted"
    assert learner.deadline_use == pytest.approx((1.8 - 0.1) / 2)


def test_truancy_counts_what_came_too_late():
    late = [
        UpdateRefused(at=12.5, round=1, learner="pi", reason="late", seconds=2.5, is_late=True),
        UpdateRefused(at=12.3, round=1, learner="jetson", reason="late", seconds=2.3, is_late=True),
    ]
    other = ShardsTaken(at=10.2, round=1, learner="jetson", num_shards=2, seconds=0.2)
    summary = summarise([*one_round(TAKEN, other, late=("pi", "jetson"), seconds=2.0, num_learners=2), *late])
    assert summary.rounds[0].truancy == summary.truancy_max == pytest.approx(0.25)
    assert (summary.num_late, summary.num_learner_rounds) == (2, 2)
    assert [learner.rounds[0].outcome for learner in summary.learners] == ["late", "late"]
    assert summary.learners[0].deadline_use == pytest.approx(2.3 / 2)


def test_rubbish_is_no_truancy():
    rubbish = UpdateRefused(at=11, round=1, learner="pi", reason="not finite", seconds=2.4)
    summary = summarise(one_round(TAKEN, rubbish, late=("pi",), seconds=2.0))
    assert summary.truancy_max == 0
    assert summary.learners[0].rounds[0].outcome == "refused"
    assert (summary.learners[0].num_refused, summary.learners[0].num_samples) == (1, 0)


def test_a_second_copy_of_an_update_changes_nothing():
    again = UpdateRefused(at=13, round=1, learner="pi", reason="late", seconds=3.0, is_late=True)
    summary = summarise([*one_round(TAKEN, ACCEPTED), again])
    assert summary.truancy_max == pytest.approx(-0.1)
    assert summary.learners[0].rounds[0].outcome == "accepted"
    assert summary.happenings == (again,)


def test_a_cheat_counts_for_nothing_and_an_honest_audit_changes_nothing():
    def audited(learner, is_honest):
        return UpdateAudited(at=11.8, round=1, learner=learner, is_honest=is_honest, distance=0.5)

    other = ShardsTaken(at=10.2, round=1, learner="jetson", num_shards=2, seconds=0.2)
    came = UpdateAccepted(at=11.5, round=1, learner="jetson", num_samples=64, seconds=1.5)
    cheat = audited("jetson", False)
    summary = summarise(one_round(TAKEN, other, came, ACCEPTED, audited("pi", True), cheat, num_learners=2))
    pi, jetson = summary.learners
    assert (pi.rounds[0].outcome, pi.num_samples, pi.num_refused) == ("accepted", 64, 0)
    assert (jetson.rounds[0].outcome, jetson.num_samples, jetson.num_refused) == ("refused", 0, 1)
    assert (summary.happenings, summary.num_audits) == ((cheat,), 2)
    assert summary.num_samples == pi.num_samples


def test_metrics_are_means_over_rounds():
    assert set(summarise([]).as_metrics().values()) == {None}
    first = one_round(TAKEN, ACCEPTED, fulfilment=1.0, is_satisfied=True, occupancy=0.9)
    counts = {"num_learners": 1, "num_updates": 1, "num_samples": 32, "num_shards": 2}
    second = [
        RoundOpened(at=20, round=2, deadline_seconds=2, num_learners=1),
        RoundClosed(at=22, round=2, seconds=2.0, truancy=0, fulfilment=0.5, occupancy=0.7, **counts),
    ]
    summary = summarise([*first, *second])
    assert [closed.is_satisfied for closed in summary.rounds] == [True, False]
    assert summary.as_metrics() == pytest.approx(
        {"training_seconds": 1.9, "satisfaction": 0.5, "fulfilment": 0.75, "drop_rate": 0.25, "occupancy": 0.8}
    )


def test_time_counts_from_the_start_of_the_run():
    started = RunStarted(at=8.0, job={}, clock="live", first_round=1, num_parameters=1, num_shards=1, paceline="0")
    assert summarise([started, *one_round(TAKEN, ACCEPTED)]).seconds == pytest.approx(3.8)


def test_an_update_that_never_came_is_missing():
    summary = summarise(one_round(TAKEN, late=("pi",), seconds=2.0))
    (learner,) = summary.learners
    assert learner.rounds[0].outcome == "missing"
    assert (learner.num_late, learner.deadline_use) == (1, None)


def test_work_of_a_round_that_is_open_is_pending():
    (learner,) = summarise([RoundOpened(at=10, round=1, deadline_seconds=2, num_learners=1), TAKEN]).learners
    assert learner.rounds[0].outcome == "pending"


def test_a_stranger_s_update_makes_no_learner():
    stranger = UpdateRefused(at=11, round=1, learner="mallory", reason="unknown learner", seconds=1.0)
    summary = summarise(one_round(TAKEN, ACCEPTED, stranger))
    assert [learner.name for learner in summary.learners] == ["pi"]
    assert summary.happenings == (stranger,)


def test_who_came_and_left():
    profile = {"train": {"per_second": 100.0}}
    events = [
        LearnerJoined(at=1, learner="pi"),
        DeviceMeasured(at=2, learner="pi", profile=profile, seconds=0.5),
        LearnerJoined(at=3, learner="jetson"),
        LearnerLeft(at=4, learner="pi", reason="goodbye"),
        LearnerLeft(at=5, learner="jetson", reason="not heard of"),
        LearnerJoined(at=6, learner="pi", is_back=True),
    ]
    pi, jetson = summarise(events).learners
    assert (pi.profile, pi.benchmark_seconds, pi.left_because) == (profile, 0.5, None)
    assert (jetson.profile, jetson.left_because) == (None, "not heard of")
    assert summarise(events).happenings == tuple(event for event in events if not isinstance(event, DeviceMeasured))


def test_waiting_is_told_once_per_change():
    waits = [
        WaitingForLearners(at=at, round=1, num_ready=ready, min_learners=3) for at, ready in enumerate((0, 0, 1, 1, 2))
    ]
    assert [wait.num_ready for wait in summarise(waits).happenings] == [0, 1, 2]


def test_a_resumed_run_is_not_ended_by_its_first_end():
    def start(at, first_round):
        return RunStarted(
            at=at, job={}, clock="live", first_round=first_round, num_parameters=1, num_shards=1, paceline="0"
        )

    ended = RunEnded(at=13, reason="stopped", rounds=1)
    events = [start(0, 1), *one_round(TAKEN, ACCEPTED), ended, start(13, 2)]
    assert summarise(events[:-1]).ended == ended
    summary = summarise(events)
    assert (summary.started, summary.ended, summary.happenings) == (start(0, 1), None, (start(13, 2),))


def test_events_that_contradict_each_other():
    with pytest.raises(ConfigError, match="round 1 was closed and never opened"):
        summarise(one_round()[1:])
    with pytest.raises(ConfigError, match="round 1 was opened with a deadline of 0 s, not above 0"):
        summarise([RoundOpened(at=1, round=1, deadline_seconds=0, num_learners=1)])


def test_a_whole_run():
    summary = summarise(run_events())
    learners = {learner.name: learner for learner in summary.learners}
    assert len(summary.rounds) == 10
    assert summary.num_late == sum(learner.num_late for learner in summary.learners) == 3
    assert summary.num_samples == sum(learner.num_samples for learner in summary.learners)
    assert summary.accuracy == summary.rounds[-1].accuracy
    assert [work.round for work in learners["old-pc"].rounds] == list(range(4, 11))
    assert learners["pi-4"].left_because == "not heard of for 1.1 s"
    assert learners["pi-4"].rounds[-1].outcome == "missing"
    assert learners["pi-zero"].rounds[6].outcome == "late"
    assert summary.truancy_max == pytest.approx(learners["pi-zero"].rounds[6].arrival_seconds - 1)
    assert learners["laptop"].num_shards > 7 * learners["pi-zero"].num_shards
    assert not any(work.is_told for work in learners["guest"].rounds)
    told = [work for learner in summary.learners for work in learner.rounds if work.is_told]
    assert summary.footprint.joules == pytest.approx(sum(2 * work.train_seconds for work in told))
    assert summary.footprint.bytes_sent == MODEL_BYTES * len(told)
    assert learners["jetson"].footprint.cpu_seconds == pytest.approx(
        sum(work.train_seconds for work in learners["jetson"].rounds)
    )
    assert (learners["guest"].footprint, learners["guest"].power) == (Footprint(), None)
    assert learners["jetson"].power == POWER


def test_the_last_known_accuracy_is_kept_when_the_last_round_was_not_evaluated():
    events = one_round(TAKEN, ACCEPTED, accuracy=0.5, loss=1.0)
    second = [RoundOpened(at=20, round=2, deadline_seconds=2, num_learners=1)]
    closed = RoundClosed(
        at=22, round=2, seconds=2, truancy=0, num_learners=1, num_updates=0, num_samples=0, num_shards=1
    )
    summary = summarise([*events, *second, closed, RunEnded(at=23, reason="stopped", rounds=2)])
    assert (summary.accuracy, summary.loss) == (0.5, 1.0)


def test_cost_is_linear_in_events():
    """Ten times the learners take ten times the calls of functions, built-in ones included."""

    def num_calls(num_learners):
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        fleet = [FakeLearner(name=f"d{index}", shards_per_second=9) for index in range(num_learners)]
        events = run_events(fleet, rounds=2)
        sys.setprofile(count)
        try:
            summarise(events)
        finally:
            sys.setprofile(None)
        return calls

    assert num_calls(1000) < 10.5 * num_calls(100)
