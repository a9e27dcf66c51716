"""A process that is told to end finishes the round that is open, opens no other, and tells nobody that it is over."""

import asyncio

import pytest

from paceline.topologies.base import Environment, run_in_place
from paceline.topologies.parallel.events import RoundClosed, RoundOpened, RoundSpent, RunEnded
from paceline.topologies.parallel.topology import TOPOLOGY
from tests.topologies.parallel.runs import ByHand, node_of, of, small_job


def test_the_open_round_is_closed_and_no_other_opens():
    by_hand = ByHand()

    async def main(orchestrator):
        await by_hand.take()
        suspending = asyncio.ensure_future(orchestrator.suspend())
        await asyncio.sleep(3.9)  # of 4 seconds until the deadline
        assert not suspending.done()
        await suspending
        (closed,) = of(RoundClosed, by_hand.events)
        assert (closed.round, closed.late) == (1, ("a",))
        await by_hand.join("b")
        await asyncio.sleep(60)

    by_hand.play(main)
    assert len(of(RoundOpened, by_hand.events)) == 1
    assert not of(RunEnded, by_hand.events)


def test_where_no_round_is_open_it_is_over_at_once():
    by_hand = ByHand(min_learners=2)

    async def main(orchestrator):
        first = asyncio.ensure_future(orchestrator.next_round(await by_hand.join("a"), 0, None))
        await asyncio.sleep(1)
        await asyncio.wait_for(orchestrator.suspend(), 0.001)
        second = asyncio.ensure_future(orchestrator.next_round(await by_hand.join("b"), 0, None))
        await asyncio.sleep(10)
        for call in (first, second):
            call.cancel()

    by_hand.play(main)
    assert not of(RoundOpened, by_hand.events)


@pytest.mark.parametrize("after_seconds", [0.0, 0.5, 1.5])
def test_a_learner_hands_in_what_it_trains(after_seconds, run_virtual):
    events, recorded = [], []

    async def main():
        plan = TOPOLOGY.prepare(small_job(rounds=50))
        host = plan.host(Environment(clock="virtual", emit=recorded.append, run_blocking=run_in_place))
        hosting = asyncio.ensure_future(host.run(""))
        async with node_of(host, plan, events) as node:
            learner = plan.member(node, None)
            taking_part = asyncio.ensure_future(learner.run(""))
            while not of(RoundOpened, recorded):
                await asyncio.sleep(0.1)
            await asyncio.sleep(after_seconds)
            num_begun = len(of(RoundOpened, recorded))
            await learner.suspend()
            assert [event.is_accepted for event in of(RoundSpent, events)] == [True] * num_begun
            await asyncio.sleep(10)
            assert len(of(RoundSpent, events)) == num_begun
            for one in (taking_part, hosting):
                one.cancel()
            await asyncio.wait((taking_part, hosting))

    run_virtual(main())
