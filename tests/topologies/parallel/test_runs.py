"""Whole runs on virtual time: what rounds do with learners that are slow, late, gone or back."""

import pytest

from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import (
    RoundOpened,
    RoundSpent,
    RunEnded,
    ShardsTaken,
    UpdateAccepted,
    UpdateRefused,
)
from tests.topologies.parallel.runs import closed, device, of, play, small_job

FLEET = [device("d1", 50), device("d2", 100), device("d4", 200), device("d8", 400)]


@pytest.mark.parametrize("policy", ["dab", "adaptive-dab", "eta"])
def test_a_fleet_learns(policy):
    outcome, events = play(small_job(policy, rounds=8, min_learners=4, local_epochs=2), FLEET)
    [ended] = of(RunEnded, events)
    assert ended.reason == "rounds done"
    assert outcome.metrics == {"loss": ended.loss, **ended.metrics, "rounds": 8}
    assert ended.metrics["accuracy"] > 0.85
    assert [event.round for event in closed(events)] == list(range(1, 9))
    assert all(event.num_updates == 4 and not event.late for event in closed(events))


def test_the_same_seed_gives_the_same_events_and_another_seed_others():
    fleet = [device("a", speed_noise=0.2, link_noise=0.2, packet_loss=0.05), device("b", 100, speed_noise=0.2)]
    runs = [play(small_job("adaptive-dab", min_learners=2, seed=seed), fleet) for seed in (0, 0, 1)]
    first, second, other = (outcome.state for outcome, _ in runs)
    assert runs[0][1] == runs[1][1]
    assert all(event.seconds <= 4.0 and event.truancy <= 0 for event in closed(runs[0][1]))
    assert all(first[name].equal(second[name]) for name in first)
    assert not all(first[name].equal(other[name]) for name in first)


def test_faster_devices_take_more_unless_shares_are_equal():
    _, events = play(small_job(min_learners=4), FLEET, is_time_only=True)
    taken = {event.learner: event.num_shards for event in of(ShardsTaken, events)}
    assert taken["d1"] < taken["d2"] < taken["d4"] < taken["d8"]
    assert taken["d8"] / taken["d1"] == pytest.approx(8, rel=0.35)  # whole shards
    _, events = play(small_job("eta", min_learners=4), FLEET, is_time_only=True)
    assert {event.num_shards for event in of(ShardsTaken, events)} <= {11, 12}  # 45 shards for four


def test_a_round_closes_when_all_are_in():
    _, events = play(small_job(min_learners=2), [device("a", max_shards=1), device("b", max_shards=2)])
    assert all(event.seconds < 1 and event.num_updates == 2 for event in closed(events))
    assert {(event.learner, event.num_shards) for event in of(ShardsTaken, events)} == {("a", 1), ("b", 2)}


def test_a_learner_that_dies_costs_its_share_only():
    fleet = [device("a"), device("b"), device("mortal", dies_at_seconds=9.0)]
    _, events = play(small_job(rounds=6, min_learners=2), fleet)
    assert len(closed(events)) == 6
    died_in = next(event for event in closed(events) if event.late)
    assert (died_in.late, died_in.num_updates) == (("mortal",), 2)
    after = [event for event in closed(events) if event.round > died_in.round + 1]
    assert all(event.num_updates == 2 and not event.late for event in after)
    assert [event.learner for event in of(LearnerLeft, events)] == ["mortal"]


def test_a_learner_that_is_back_goes_on_and_one_may_join_late():
    fleet = [device("a"), device("b", dies_at_seconds=9.0, returns_at_seconds=14.0), device("c", joins_at_seconds=10.0)]
    _, events = play(small_job(rounds=8), fleet)
    joined = [(event.learner, event.is_back) for event in of(LearnerJoined, events)]
    assert joined == [("a", False), ("b", False), ("c", False), ("b", True)]
    back_at = next(event.at for event in of(LearnerJoined, events) if event.is_back)
    accepted = of(UpdateAccepted, events)
    assert any(event.learner == "b" and event.at > back_at for event in accepted)
    assert [event.round for event in accepted if event.learner == "a"] == list(range(1, 9))
    assert min(event.round for event in accepted if event.learner == "c") > 1


def test_the_wait_for_enough_learners_is_recorded():
    _, events = play(small_job(rounds=2, min_learners=2), [device("a"), device("late", joins_at_seconds=100.0)])
    waiting = of(WaitingForLearners, events)
    assert [(event.num_ready, event.min_learners) for event in waiting] == [(0, 2), (1, 2)]
    assert of(RoundOpened, events)[0].at > 100


def test_a_target_ends_the_run():
    _, events = play(small_job(rounds=50, local_epochs=2, target="accuracy >= 0.8"), FLEET)
    [ended] = of(RunEnded, events)
    assert ended.reason == "target reached"
    assert closed(events)[-2].metrics["accuracy"] < 0.8 <= ended.metrics["accuracy"]
    assert len(closed(events)) == ended.rounds < 50


def test_a_device_that_cannot_train_one_shard_leaves():
    _, events = play(small_job(rounds=12), [device("a"), device("snail", 6.0)], is_time_only=True)
    assert [event.learner for event in of(LearnerLeft, events)] == ["snail"]
    assert {event.learner for event in of(ShardsTaken, events)} == {"a"}


def test_lost_messages_do_not_stop_a_run():
    fleet = [device("a", packet_loss=0.1), device("b", packet_loss=0.1)]
    _, events = play(small_job("adaptive-dab", rounds=10), fleet)
    assert len(closed(events)) == 10
    assert sum(event.num_updates for event in closed(events)) >= 12


@pytest.mark.parametrize("loss", [0.2, 0.3])
def test_no_learner_gives_up_on_links_that_lose_one_in_three(loss):
    for seed in range(20):
        fleet = [device(name, packet_loss=loss) for name in "abc"]
        _, events = play(small_job(rounds=6, seed=seed), fleet, is_time_only=True)
        assert len(closed(events)) == 6, seed
        assert of(LearnerLeft, events) == [], seed
        # Some come late; a second attempt is not taken for a second update.
        assert {event.is_late for event in of(UpdateRefused, events)} <= {True}, seed


def test_parameters_are_saved_before_a_round_is_recorded_as_closed():
    """Else a process that dies in between would resume after a round whose checkpoint is missing."""
    order = []

    def emit(event):
        order.extend(("closed", end.round) for end in closed([event]))

    play(small_job(rounds=2), [device("a")], emit=emit, save=lambda round, *_: order.append(("saved", round)))
    assert order == [("saved", 1), ("closed", 1), ("saved", 2), ("closed", 2), ("saved", "best")]


def test_learners_report_how_they_spent_a_round():
    _, events = play(small_job(), [device("a")])
    spent, accepted = of(RoundSpent, events), of(UpdateAccepted, events)
    assert len(spent) == len(accepted) == 4
    for mine, theirs in zip(spent, accepted, strict=True):
        busy = mine.start_seconds + mine.download_seconds + mine.train_seconds + mine.upload_seconds
        assert busy == pytest.approx(theirs.seconds, abs=0.02)  # but for the latency of the answer
        assert mine.num_samples == theirs.num_samples


def test_halting_keeps_an_overloaded_learner_in_time():
    _, events = play(small_job("eta", rounds=3, local_epochs=4), [device("slow", 100)])  # 1437 samples, 4 times: 57 s
    assert all(event.num_updates == 1 for event in closed(events))
    assert all(event.is_halted and event.is_accepted for event in of(RoundSpent, events))


def test_time_only_takes_the_same_time():
    fleet = [device("a"), device("b", 70)]
    with_gradients, without = (
        [event.seconds for event in of(UpdateAccepted, play(small_job(), fleet, is_time_only=only)[1])]
        for only in (False, True)
    )
    assert with_gradients == pytest.approx(without)
