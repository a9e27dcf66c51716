"""Scripts of virtual fleets: links that are cut, devices that are killed, and a script that fails."""

import asyncio

import pytest

from paceline.fleets.base import HOST
from paceline.fleets.virtual import VirtualFleet
from paceline.topologies.base import Environment
from paceline.topologies.events import HostBack, HostLost, LearnerJoined
from paceline.topologies.parallel.events import RoundClosed
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import device, of, small_job


def play(script, **rules):
    events = []
    fleet = VirtualFleet([device("a"), device("b")], script=script)
    fleet.run(JobPlan(prepare_job(small_job(**rules))), Environment(emit=events.append))
    return events


def test_a_link_is_cut_and_mended():
    async def script(fleet):
        await asyncio.sleep(9)
        fleet.link(HOST).cut()
        await asyncio.sleep(20)
        fleet.link(HOST).mend()

    events = play(script, rounds=6)
    assert {event.learner for event in of(HostLost, events)} == {"a", "b"}
    assert all(event.at >= 29 for event in of(HostBack, events))
    assert len(of(RoundClosed, events)) == 6


def test_devices_are_killed_again_and_again():
    killed = []

    async def script(fleet):
        for _ in range(3):
            await asyncio.sleep(5)
            killed.append(fleet.kill("a", 2.0))
        killed.append(fleet.kill("a", 2.0))  # it is away
        killed.append(fleet.kill("nobody", None))

    events = play(script, rounds=8)
    assert killed == [True, True, True, False, False]
    assert [event.is_back for event in of(LearnerJoined, events) if event.learner == "a"] == [False, True, True, True]


def test_a_device_that_is_killed_for_good_does_not_return():
    async def script(fleet):
        await asyncio.sleep(5)
        fleet.kill("a", None)
        await asyncio.sleep(20)
        assert fleet.link("a") is None

    events = play(script, rounds=8)
    assert [event.is_back for event in of(LearnerJoined, events) if event.learner == "a"] == [False]


def test_what_a_script_raises_ends_the_run():
    async def script(fleet):
        await asyncio.sleep(5)
        raise OverflowError("a script of mine")

    with pytest.raises(OverflowError, match="a script of mine"):
        play(script)


def test_lives_grow_also_when_a_run_goes_on():
    lives = []
    for started_at in (0.0, 30.0):
        plan = JobPlan(prepare_job(small_job(rounds=1)))
        make = plan.member
        plan.member = lambda node, host, make=make: lives.append(node.life) or make(node, host)
        VirtualFleet([device("a")]).run(plan, Environment(), started_at)
    assert 0 < lives[0] < 30e6 < lives[1]
