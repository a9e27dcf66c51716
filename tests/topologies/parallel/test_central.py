"""Policies that the orchestrator decides: profiles up, shards and local epochs down; and rounds that may run over."""

import asyncio
import math

import pytest

import paceline
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.profiles import Profile, Rate
from paceline.errors import RemoteError
from paceline.fleets import virtual_loop
from paceline.topologies.parallel import Orchestrator, Surroundings, hosted, in_place, make_plan, reach
from paceline.topologies.parallel.events import RoundSpent, ShardsTaken
from paceline.topologies.parallel.hosting import DEVICE
from paceline.topologies.parallel.messages import Standing
from tests.topologies.parallel.runs import closed, device, of, play, small_job

FLEET = [device("slow", 100), device("middling", 250), device("fast", 900)]
RULES = {"rounds": 3, "min_learners": 3, "deadline_seconds": 20.0, "local_epochs": 2}


def shares(told, round=2):
    """Shards and local epochs by learner."""
    taken = [event for event in of(ShardsTaken, told) if event.round == round]
    return {event.learner: (event.num_shards, event.local_epochs) for event in taken}


def test_csa_hands_out_all_data_and_keeps_learners_together():
    _, told = play(small_job("csa", **RULES), FLEET)
    by_learner = shares(told)
    local_epochs = [count for _, count in by_learner.values()]
    assert sum(count for count, _ in by_learner.values()) == 45  # all of the digits
    assert by_learner["fast"][0] > by_learner["middling"][0] > by_learner["slow"][0]
    assert min(local_epochs) > 2  # as many as fit, whatever the job says
    _, told_of_equal = play(small_job({"policy": "eta", "asynchronous": True}, **RULES), FLEET, is_time_only=True)
    assert max(local_epochs) - min(local_epochs) <= 2 < 10 * 2 < closed(told_of_equal)[1].staleness
    assert [event.num_updates for event in closed(told)] == [3, 3, 3]
    assert all(event.truancy <= 0 for event in closed(told))


def test_sync_gives_everybody_the_same_local_epochs():
    _, told = play(small_job("sync", **RULES), FLEET)
    assert len({count for _, count in shares(told).values()}) == 1
    assert [event.staleness for event in closed(told)] == [0, 0, 0]


def test_staleness_is_that_of_what_was_done():
    _, told = play(small_job({"policy": "eta", "asynchronous": True}, **RULES), FLEET, is_time_only=True)
    local_epochs = sorted(count for _, count in shares(told).values())
    assert local_epochs[0] < local_epochs[1] < local_epochs[2]
    [_, second, _] = closed(told)
    # the last pass may be cut short
    assert second.staleness == pytest.approx(local_epochs[2] - local_epochs[0], abs=0.6)
    assert 0 < second.average_staleness < second.staleness


def test_learners_that_come_late_take_part_in_the_next_round():
    late = [*FLEET[:2], device("fast", 900, joins_at_seconds=25.0)]
    _, told = play(small_job("csa", **{**RULES, "min_learners": 2, "rounds": 4}), late)
    assert set(shares(told, 1)) == {"slow", "middling"}
    assert set(shares(told, 4)) == {"slow", "middling", "fast"}
    assert sum(count for count, _ in shares(told, 4).values()) == 45


def test_profiles_are_sent_only_to_policies_that_need_them(monkeypatch):
    declared = {}
    plain = Orchestrator.declare

    async def declare(self, session: str, standing: Standing) -> None:
        declared.setdefault(self._job.allocation.__class__.__name__, []).append(standing.profile)
        await plain(self, session, standing)

    monkeypatch.setattr(Orchestrator, "declare", declare)
    for policy in ("dab", "eta", "csa"):
        play(small_job(policy, **{**RULES, "rounds": 1}), FLEET, is_time_only=True)
    assert set(declared) == {"EqualAllocation", "CsaAllocation"}
    assert declared["EqualAllocation"] == [None, None, None]
    speeds = sorted(profile.train.per_second for profile in declared["CsaAllocation"])
    assert speeds == pytest.approx([100, 250, 900])


@pytest.mark.parametrize(
    "profile",
    [
        {"train": [math.nan], "down": [1.0], "up": [1.0]},
        {"train": [math.inf], "down": [1.0], "up": [1.0]},
        {"train": [-1.0], "down": [1.0], "up": [1.0]},
        {"train": [1.0], "down": [1.0], "up": [1.0], "latency_seconds": -1.0},
        {"train": ["fast"], "down": [1.0], "up": [1.0]},
        {},
    ],
)
def test_profiles_that_cannot_be_are_refused_in_one_line(profile):
    plan, state = make_plan(small_job("csa"))
    orchestrator = Orchestrator(plan, state, Surroundings(emit=lambda event: None, aside=in_place, clock="virtual"))

    async def main():
        network = MemoryNetwork()
        async with hosted(orchestrator, plan.terms.model_bytes, transport=network.host(DEVICE)) as address:
            remote = reach(str(address), transport=network.host("a"))
            offer = await remote.join.coro("a", paceline.__version__, 0.0)
            with pytest.raises(paceline.errors.PacelineError) as raised:
                await remote.declare.coro(offer.session, {"profile": profile})
            assert not isinstance(raised.value, RemoteError)  # it did not get as far as the orchestrator's code
            assert "\n" not in str(raised.value)

    virtual_loop.run(main())


def test_profiles_of_absurd_devices_do_no_harm():
    """A device that claims to be a thousand million times slower, or faster, than any is no reason to fall over."""
    job = small_job("csa", rounds=1, min_learners=2, deadline_seconds=5.0)
    plan, state = make_plan(job)
    told = []
    orchestrator = Orchestrator(plan, state, Surroundings(emit=told.append, aside=in_place, clock="virtual"))

    async def main():
        running = asyncio.ensure_future(orchestrator.run())
        offers = [await orchestrator.join(name, paceline.__version__, 0.0) for name in ("still", "wild")]
        for offer, rate in zip(offers, (5e-324, 1.7e308), strict=True):
            profile = Profile(train=Rate(rate), down=Rate(rate), up=Rate(rate))
            await orchestrator.declare(offer.session, Standing(profile=profile))
        tickets = await asyncio.gather(*(orchestrator.next_round(offer.session, 0, None) for offer in offers))
        await running
        return tickets

    still, wild = virtual_loop.run(main())
    assert still.allocation.num_shards == 0
    assert wild.allocation.num_shards == plan.terms.num_shards
    assert closed(told)[0].num_updates == 0


def test_without_overtime_a_round_closes_at_the_deadline():
    _, told = play(small_job("csa", rounds=2, min_learners=3, deadline_seconds=0.9), FLEET)
    assert all(event.truancy <= 0 for event in closed(told))
    assert any(event.is_halted for event in of(RoundSpent, told))


def test_with_overtime_a_round_waits_and_nobody_halts():
    """All of the data takes these three 1.2 s at the least, and transfers."""
    _, told = play(small_job("csa", rounds=2, min_learners=3, deadline_seconds=0.9, overtime=3.0), FLEET)
    assert all(0.2 < event.truancy < 3.0 for event in closed(told))
    assert all(event.num_updates == 3 and event.late == () for event in closed(told))
    assert not any(event.is_halted for event in of(RoundSpent, told))
    assert {event.num_samples for event in closed(told)} == {1438}


def test_overtime_ends():
    fleet = [device("a", 900), device("b", 900, dies_at_seconds=1.5)]
    _, told = play(small_job("sync", rounds=2, min_learners=1, deadline_seconds=2.0, overtime=1.0), fleet)
    first, second = closed(told)
    assert (first.seconds, first.truancy, first.late) == (pytest.approx(4.0), pytest.approx(1.0), ("b",))
    assert (second.num_updates, second.late) == (1, ())


@pytest.mark.parametrize("overtime", [-0.1, math.nan, 1e9])
def test_overtime_that_cannot_be(overtime):
    with pytest.raises(ValueError, match="overtime is .*; allowed: 0 to 100"):
        small_job("csa", overtime=overtime)
