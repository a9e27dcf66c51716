"""Rounds of a few learners drawn from those that are ready; the others wait, and nothing is held against them."""

import itertools
from collections import Counter

import pytest

from paceline.learning.datasets import DataSpec
from paceline.topologies.events import LearnerLeft
from paceline.topologies.parallel.events import RoundOpened, ShardsTaken
from paceline.topologies.parallel.jobs import Pool
from paceline.topologies.parallel.progress import RunProgress
from paceline.topologies.parallel.tables import RunTables
from tests.topologies.parallel.runs import ByHand, closed, device, of, play, small_job

FLEET = [device(f"d{number}", 100 + 40 * number) for number in range(10)]


def drawn_job(policy="dab", **changes):
    return small_job(policy, **{"rounds": 60, "min_learners": 10, "learners_per_round": 3, **changes})


@pytest.mark.parametrize("placement", ["served", "local"])
@pytest.mark.parametrize("policy", ["dab", "eta", "csa"])
def test_each_round_has_those_that_were_drawn(policy, placement):
    data = DataSpec(name="digits", shard_size=32, placement=placement)
    _, events = play(drawn_job(policy, overtime=50.0, data=data), FLEET, is_time_only=True)
    opened = of(RoundOpened, events)
    assert [(event.num_learners, event.num_ready, len(event.drawn)) for event in opened] == [(3, 10, 3)] * 60
    taken = {event.round: set() for event in opened}
    for event in of(ShardsTaken, events):
        taken[event.round].add(event.learner)
    assert taken == {event.round: set(event.drawn) for event in opened}
    assert all((event.num_learners, event.num_updates, event.late) == (3, 3, ()) for event in closed(events))
    assert not of(LearnerLeft, events)
    # Each is drawn 18 times on average; whoever was the last to deliver has the same chance as the others.
    counts = Counter(name for event in opened for name in event.drawn)
    assert len(counts) == 10
    assert max(counts.values()) <= 30
    again = sum(bool({*one.drawn} & {*two.drawn}) for one, two in itertools.pairwise(opened))
    assert 30 <= again <= 53  # of 59; 71 % by chance


def test_the_draw_follows_from_the_seed():
    def drawn(seed):
        return [event.drawn for event in of(RoundOpened, play(drawn_job(seed=seed), FLEET, is_time_only=True)[1])]

    assert drawn(1) == drawn(1) != drawn(2)


def test_who_comes_while_a_round_has_fewer_joins_it_and_then_no_other_does():
    by_hand = ByHand(rounds=2, min_learners=1, learners_per_round=2)

    async def main(orchestrator):
        first, second = await by_hand.take("a"), await by_hand.take("b")
        third = await by_hand.join("c")
        with pytest.raises(ValueError, match="c was not drawn for round 1"):
            await orchestrator.take(third, 1, 1)
        for session in (first, second):
            assert (await orchestrator.update(session, 1, by_hand.parameters, 2)).is_accepted
        await orchestrator.next_round(third, 0, None)

    by_hand.play(main)
    opened = of(RoundOpened, by_hand.events)
    assert [(event.num_learners, event.num_ready) for event in opened] == [(1, 1), (2, 3)]
    assert closed(by_hand.events)[0].num_updates == 2


def test_lines_and_report_show_it():
    _, events = play(drawn_job(rounds=2), FLEET, is_time_only=True)
    progress, tables = RunProgress(), RunTables(drawn_job().described())
    lines = [line for event in events for line in progress.lines(event)]
    assert "3 learners of 10" in next(line for line in lines if line.startswith("round 2/2"))
    for event in events:
        tables.feed(event)
    made = {table.name: table for table in tables.tables()}
    assert made["rounds"].values("num_ready") == [10, 10]
    assert "3 learners drawn for each round" in made["summary"].records()[0]["about"]
    assert not any(made["learners"].values("num_late"))


def test_a_pool_places_its_learners_itself():
    with pytest.raises(ValueError, match="job a: learners_per_round is for a job alone"):
        Pool(jobs=(small_job(name="a", learners_per_round=2),))
