"""Whole runs on virtual time: what rounds do with learners that are slow, late, gone or back."""

import pytest

from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import RoundOpened, RoundSpent, ShardsTaken, UpdateAccepted
from tests.topologies.parallel.runs import closed, device, of, play, small_job

FLEET = [device("d1", 50), device("d2", 100), device("d4", 200), device("d8", 400)]


@pytest.mark.parametrize("policy", ["dab", "adaptive-dab", "eta"])
def test_a_fleet_learns(policy):
    outcome, told = play(small_job(policy, rounds=8, min_learners=4, local_epochs=2), FLEET)
    assert outcome.ended.reason == "rounds done"
    assert outcome.ended.accuracy > 0.85
    assert [event.round for event in closed(told)] == list(range(1, 9))
    assert all(event.num_updates == 4 and not event.late for event in closed(told))


def test_the_same_seed_gives_the_same_events():
    fleet = [device("a", speed_noise=0.2, link_noise=0.2, packet_loss=0.05), device("b", 100, speed_noise=0.2)]
    first, second = (play(small_job("adaptive-dab", min_learners=2), fleet) for _ in range(2))
    assert first[1] == second[1]
    assert all(first[0].state[name].equal(second[0].state[name]) for name in first[0].state)


def test_another_seed_gives_another_run():
    first, second = (play(small_job(seed=seed), FLEET)[0] for seed in (0, 1))
    assert not all(first.state[name].equal(second.state[name]) for name in first.state)


def test_faster_devices_take_more():
    _, told = play(small_job(min_learners=4), FLEET)
    taken = {event.learner: event.num_shards for event in of(ShardsTaken, told)}
    assert taken["d1"] < taken["d2"] < taken["d4"] < taken["d8"]
    assert taken["d8"] / taken["d1"] == pytest.approx(8, rel=0.35)  # whole shards


def test_equal_shares_are_equal():
    _, told = play(small_job("eta", min_learners=4), FLEET)
    assert {event.num_shards for event in of(ShardsTaken, told)} <= {11, 12}  # 45 shards for four


def test_no_round_is_longer_than_its_deadline():
    fleet = [device("a", speed_noise=0.3, link_noise=0.3), device("b", 50, speed_noise=0.3, link_noise=0.3)]
    _, told = play(small_job(rounds=10, min_learners=2), fleet)
    assert all(event.seconds <= 4.0 and event.truancy <= 0 for event in closed(told))


def test_a_round_closes_when_all_are_in():
    _, told = play(small_job(min_learners=2), [device("a", max_shards=1), device("b", max_shards=2)])
    assert all(event.seconds < 1 and event.num_updates == 2 for event in closed(told))
    assert {(event.learner, event.num_shards) for event in of(ShardsTaken, told)} == {("a", 1), ("b", 2)}


def test_a_learner_that_dies_costs_its_share_only():
    fleet = [device("a"), device("b"), device("mortal", dies_at_seconds=9.0)]
    _, told = play(small_job(rounds=6, min_learners=2), fleet)
    assert len(closed(told)) == 6
    died_in = next(event for event in closed(told) if event.late)
    assert died_in.late == ("mortal",)
    assert died_in.num_updates == 2
    after = [event for event in closed(told) if event.round > died_in.round + 1]
    assert all(event.num_updates == 2 and not event.late for event in after)
    assert [event.learner for event in of(LearnerLeft, told)] == ["mortal"]


def test_a_learner_that_is_back_goes_on():
    fleet = [device("a"), device("b", dies_at_seconds=9.0, returns_at_seconds=14.0)]
    _, told = play(small_job(rounds=8), fleet)
    joined = [(event.learner, event.is_back) for event in of(LearnerJoined, told)]
    assert joined == [("a", False), ("b", False), ("b", True)]
    back_at = next(event.at for event in of(LearnerJoined, told) if event.is_back)
    assert [event for event in of(UpdateAccepted, told) if event.learner == "b" and event.at > back_at]


def test_a_learner_may_join_late():
    _, told = play(small_job(rounds=6), [device("a"), device("late", joins_at_seconds=10.0)])
    rounds_of = {}
    for event in of(UpdateAccepted, told):
        rounds_of.setdefault(event.learner, []).append(event.round)
    assert rounds_of["a"] == [1, 2, 3, 4, 5, 6]
    assert rounds_of["late"]
    assert min(rounds_of["late"]) > 1


def test_too_few_learners_wait_and_say_so():
    _, told = play(small_job(rounds=2, min_learners=2), [device("a"), device("late", joins_at_seconds=100.0)])
    waiting = of(WaitingForLearners, told)
    assert [(event.num_ready, event.min_learners) for event in waiting] == [(0, 2), (1, 2)]
    assert of(RoundOpened, told)[0].at > 100


def test_target_accuracy_ends_the_run():
    outcome, told = play(small_job(rounds=50, local_epochs=2, target_accuracy=0.8), FLEET)
    assert outcome.ended.reason == "target accuracy reached"
    assert outcome.ended.accuracy >= 0.8
    assert len(closed(told)) == outcome.ended.rounds < 50
    assert closed(told)[-2].accuracy < 0.8


def test_a_device_that_cannot_train_one_shard_leaves():
    _, told = play(small_job(rounds=12), [device("a"), device("snail", 6.0)], is_time_only=True)
    assert [event.learner for event in of(LearnerLeft, told)] == ["snail"]
    assert {event.learner for event in of(ShardsTaken, told)} == {"a"}


def test_lost_messages_do_not_stop_a_run():
    fleet = [device("a", packet_loss=0.1), device("b", packet_loss=0.1)]
    _, told = play(small_job("adaptive-dab", rounds=10), fleet)
    assert len(closed(told)) == 10
    assert sum(event.num_updates for event in closed(told)) >= 12


def test_parameters_are_saved_before_a_round_is_told_to_be_closed():
    order = []
    job = small_job(rounds=2)
    _, told = play(job, [device("a")], save=lambda round, state: order.append(round))
    assert order == [1, 2]
    assert [event.round for event in closed(told)] == order


def test_a_run_goes_on_where_it_was():
    _, told = play(small_job(rounds=5), [device("a")], first_round=4, started_at=100.0)
    assert [event.round for event in closed(told)] == [4, 5]
    assert told[0].at == 100.0
    assert told[0].first_round == 4


def test_learners_tell_how_they_spent_a_round():
    _, told = play(small_job(), [device("a")])
    spent = of(RoundSpent, told)
    accepted = of(UpdateAccepted, told)
    assert len(spent) == len(accepted) == 4
    for mine, theirs in zip(spent, accepted, strict=True):
        busy = mine.start_seconds + mine.download_seconds + mine.train_seconds + mine.upload_seconds
        assert busy == pytest.approx(theirs.seconds, abs=0.02)  # but for the latency of the answer
        assert mine.num_samples == theirs.num_samples


def test_halting_keeps_an_overloaded_learner_in_time():
    _, told = play(small_job("eta", rounds=3, local_epochs=4), [device("slow", 100)])  # 1437 samples, 4 times: 57 s
    assert all(event.num_updates == 1 for event in closed(told))
    assert all(event.is_halted and event.is_accepted for event in of(RoundSpent, told))


def test_time_only_takes_the_same_time():
    fleet = [device("a"), device("b", 70)]
    with_gradients, without = (play(small_job(), fleet, is_time_only=only)[1] for only in (False, True))
    assert [e.seconds for e in of(UpdateAccepted, with_gradients)] == pytest.approx(
        [e.seconds for e in of(UpdateAccepted, without)]
    )
