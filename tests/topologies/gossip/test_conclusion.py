"""The end: one average for all who live, whoever goes or shows rubbish meanwhile."""

import asyncio

import pytest

from paceline.errors import Unreachable
from paceline.topologies.gossip.conclusion import Conclusion
from paceline.topologies.gossip.members import Membership
from paceline.topologies.gossip.messages import Shown
from tests.topologies.gossip.answers import ScriptedContacts, member, model


def ready(value, averaged=()):
    return Shown(status="ready", parameters=model(value), averaged=averaged)


def conclude(run_virtual, me, answers, own=1.0, linger_seconds=None):
    """The end of a peer among others that answer so; returns it, what it came to, and when."""
    membership = Membership(member(me))
    membership.merge(map(member, answers))

    async def main():
        conclusion = Conclusion(membership, ScriptedContacts(membership, answers), model())
        concluded = await conclusion.reach(model(own))
        if linger_seconds is not None:
            await conclusion.linger(linger_seconds)
        at = asyncio.get_running_loop().time()
        shown = await conclusion.conclude(1.0)
        assert len(asyncio.all_tasks()) == 1
        return membership, concluded, at, shown

    return run_virtual(main())


def test_the_first_by_name_averages_all_alike(run_virtual):
    _, concluded, _, _ = conclude(run_virtual, "a", {"b": [ready(2)], "c": [ready(6)]})
    assert concluded.averaged == ("a", "b", "c")
    assert concluded.parameters["float32"].tolist() == pytest.approx([3.0] * 4)


def test_the_others_fetch_it_and_hand_it_on(run_virtual):
    _, concluded, _, shown = conclude(run_virtual, "b", {"a": [ready(2, ("a", "b"))], "c": [ready(6)]})
    assert concluded.averaged == shown.averaged == ("a", "b")
    assert concluded.parameters["float32"].tolist() == shown.parameters["float32"].tolist() == [2.0] * 4


def test_slow_ones_are_waited_for_without_haste(run_virtual):
    wait = Shown(status="wait")
    _, concluded, at, _ = conclude(run_virtual, "a", {"b": [*[wait] * 50, ready(3)]})
    assert concluded.averaged == ("a", "b")
    assert at == pytest.approx(5.0)
    _, concluded, at, _ = conclude(run_virtual, "b", {"a": [*[wait] * 50, ready(3)]})
    assert at == pytest.approx(5.0)


def test_when_the_collector_goes_the_next_one_does_it(run_virtual):
    membership, concluded, _, _ = conclude(run_virtual, "b", {"a": [Unreachable("dead")], "c": [ready(3)]})
    assert concluded.averaged == ("b", "c")
    assert membership.get("a").status == "dead"


def test_when_all_are_gone_it_keeps_its_own(run_virtual):
    answers = {name: [Unreachable("dead")] for name in ("a", "c")}
    _, concluded, _, _ = conclude(run_virtual, "b", answers, own=5.0)
    assert concluded.averaged == ("b",)
    assert concluded.parameters["float32"].tolist() == [5.0] * 4


RUBBISH = {"not a number": ready(float("nan")), "nothing": Shown(status="ready"), "absurd": ready(1e30)}


@pytest.mark.parametrize("shown", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_not_averaged(run_virtual, shown):
    membership, concluded, _, _ = conclude(run_virtual, "a", {"b": [shown], "c": [ready(3)]})
    assert concluded.averaged == ("a", "c")
    assert membership.get("b").status == "dead"


@pytest.mark.parametrize("shown", RUBBISH.values(), ids=RUBBISH)
def test_an_average_that_is_rubbish_is_not_taken(run_virtual, shown):
    _, concluded, _, _ = conclude(run_virtual, "b", {"a": [shown], "c": [ready(3)]})
    assert concluded.averaged == ("b", "c")
    assert concluded.parameters["float32"].tolist() == [2.0] * 4


def test_whoever_made_it_stays_for_the_others_but_not_for_ever(run_virtual):
    _, _, at, _ = conclude(run_virtual, "a", {"b": [ready(1)]}, linger_seconds=20.0)
    assert at == pytest.approx(20.0, abs=0.2)


def test_it_leaves_when_all_others_have(run_virtual):
    membership = Membership(member("a"))
    membership.merge([member("b")])

    async def main():
        loop = asyncio.get_running_loop()
        conclusion = Conclusion(membership, ScriptedContacts(membership, {"b": [ready(1)]}), model())
        await conclusion.reach(model())
        loop.call_later(3.0, membership.merge, [member("b", beat=1, status="left")])
        await conclusion.linger(20.0)
        return loop.time()

    assert run_virtual(main()) == pytest.approx(3.0, abs=0.2)


def test_whoever_fetched_it_need_not_stay(run_virtual):
    _, _, at, _ = conclude(run_virtual, "b", {"a": [ready(1)]}, linger_seconds=20.0)
    assert at == 0.0


def test_before_the_end_there_is_nothing_to_show(run_virtual):
    membership = Membership(member("a"))

    async def main():
        conclusion = Conclusion(membership, ScriptedContacts(membership, {}), model())
        shown = [await conclusion.settled(2.0), await conclusion.conclude(3.0)]
        return [one.status for one in shown], asyncio.get_running_loop().time()

    assert run_virtual(main()) == (["wait", "wait"], 5.0)
