"""The end: one average for all who live, whoever goes or sends rubbish meanwhile."""

import asyncio

import pytest

from paceline.errors import Unreachable
from paceline.topologies.gossip.final_average import FinalAveraging
from paceline.topologies.gossip.membership import Membership
from paceline.topologies.gossip.messages import ModelReply
from tests.topologies.gossip.answers import ScriptedCalls, model, record


def ready(value, averaged=()):
    return ModelReply(status="ready", parameters=model(value), averaged=averaged)


def average(run_virtual, me, answers, linger_seconds=0.0, others_leave_at=100.0):
    """The end of a peer among others that answer so; returns what it knows, its average, and when it went."""
    membership = Membership(record(me))
    membership.merge(map(record, answers))

    async def main():
        loop = asyncio.get_running_loop()
        averaging = FinalAveraging(membership, ScriptedCalls(membership, answers), model())
        reached = await averaging.reach(model(1.0))
        left = [record(name, beat=1, status="left") for name in answers]
        loop.call_later(others_leave_at, membership.merge, left)
        await averaging.linger(linger_seconds)
        at = loop.time()
        reply = await averaging.reply_with_average(1.0)
        assert reply.averaged == reached.averaged
        assert reply.parameters is reached.parameters
        assert len(asyncio.all_tasks()) == 1
        return membership, reached, at

    return run_virtual(main())


@pytest.mark.parametrize(
    ("me", "answers", "averaged", "value"),
    [
        ("a", {"b": [ready(2)], "c": [ready(6)]}, "abc", 3.0),  # the first by name averages
        ("b", {"a": [ready(2, ("a", "b"))], "c": [ready(6)]}, "ab", 2.0),  # others fetch
        ("b", {"a": [Unreachable("dead")], "c": [ready(3)]}, "bc", 2.0),  # the next one averages
        ("b", {name: [Unreachable("dead")] for name in "ac"}, "b", 1.0),
    ],
)
def test_one_averages_all_alike_and_the_others_fetch_that(run_virtual, me, answers, averaged, value):
    membership, reached, _ = average(run_virtual, me, answers)
    assert reached.averaged == tuple(averaged)
    assert reached.parameters["float32"].tolist() == pytest.approx([value] * 4)
    gone = {name for name, scripted in answers.items() if isinstance(scripted[0], Unreachable)}
    assert {one.name for one in membership.everybody() if not one.is_living} == gone


@pytest.mark.parametrize(("me", "other"), ["ab", "ba"])
def test_slow_ones_are_waited_for_without_haste(run_virtual, me, other):
    answers = {other: [*[ModelReply(status="wait")] * 50, ready(3)]}
    assert average(run_virtual, me, answers)[2] == pytest.approx(5.0)


RUBBISH = {"not a number": ready(float("nan")), "nothing": ModelReply(status="ready"), "absurd": ready(1e30)}


@pytest.mark.parametrize(("me", "liar"), ["ab", "ba"])
@pytest.mark.parametrize("reply", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_neither_averaged_nor_taken_for_the_average(run_virtual, me, liar, reply):
    membership, reached, _ = average(run_virtual, me, {liar: [reply], "c": [ready(3)]})
    assert reached.averaged == (me, "c")
    assert reached.parameters["float32"].tolist() == [2.0] * 4
    assert membership.get(liar).status == "dead"


@pytest.mark.parametrize(
    ("me", "other", "others_leave_at", "stays_until"),
    [("a", "b", 100.0, 20.0), ("a", "b", 3.0, 3.0), ("b", "a", 3.0, 0.0)],
)
def test_whoever_made_it_stays_until_the_others_leave_but_not_for_ever(
    run_virtual, me, other, others_leave_at, stays_until
):
    *_, at = average(run_virtual, me, {other: [ready(1)]}, 20.0, others_leave_at)
    assert at == pytest.approx(stays_until, abs=0.2)


def test_before_the_end_there_is_nothing_to_send(run_virtual):
    membership = Membership(record("a"))

    async def main():
        averaging = FinalAveraging(membership, ScriptedCalls(membership, {}), model())
        replies = [await averaging.reply_with_own(2.0), await averaging.reply_with_average(3.0)]
        return [one.status for one in replies], asyncio.get_running_loop().time()

    assert run_virtual(main()) == (["wait", "wait"], 5.0)
