"""Policies that the orchestrator decides: profiles up, shards and local epochs down; and rounds that may run over."""

import asyncio
import math

import pytest

from paceline.devices.profiles import Profile, Rate
from paceline.errors import PacelineError, RemoteError
from paceline.topologies.parallel.events import RoundSpent, RunEnded, ShardsTaken
from paceline.topologies.parallel.messages import Declaration, OrchestratorService
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import ByHand, closed, device, node_of, of, play, small_job

FLEET = [device("slow", 100), device("middling", 250), device("fast", 900)]
RULES = {"rounds": 3, "min_learners": 3, "deadline_seconds": 20.0, "local_epochs": 2}


def shares(events, round=2):
    """Shards and local epochs by learner."""
    taken = [event for event in of(ShardsTaken, events) if event.round == round]
    return {event.learner: (event.num_shards, event.local_epochs) for event in taken}


def test_csa_hands_out_all_data_and_keeps_learners_together():
    _, events = play(small_job("csa", **RULES), FLEET)
    by_learner = shares(events)
    local_epochs = [count for _, count in by_learner.values()]
    assert sum(count for count, _ in by_learner.values()) == 45  # all of the digits
    assert by_learner["fast"][0] > by_learner["middling"][0] > by_learner["slow"][0]
    assert min(local_epochs) > 2  # as many as fit, whatever the job says
    _, of_equal = play(small_job({"policy": "eta", "asynchronous": True}, **RULES), FLEET, is_time_only=True)
    assert max(local_epochs) - min(local_epochs) <= 2 < 10 * 2 < closed(of_equal)[1].staleness
    assert [event.num_updates for event in closed(events)] == [3, 3, 3]
    assert all(event.truancy <= 0 for event in closed(events))


def test_sync_gives_everybody_the_same_local_epochs():
    _, events = play(small_job("sync", **RULES), FLEET)
    assert len({count for _, count in shares(events).values()}) == 1
    assert [event.staleness for event in closed(events)] == [0, 0, 0]


def test_staleness_is_that_of_what_was_done():
    _, events = play(small_job({"policy": "eta", "asynchronous": True}, **RULES), FLEET, is_time_only=True)
    local_epochs = sorted(count for _, count in shares(events).values())
    assert local_epochs[0] < local_epochs[1] < local_epochs[2]
    [_, second, _] = closed(events)
    # the last pass may be cut short
    assert second.staleness == pytest.approx(local_epochs[2] - local_epochs[0], abs=0.6)
    assert 0 < second.average_staleness < second.staleness


def test_learners_that_come_late_take_part_in_the_next_round():
    late = [*FLEET[:2], device("fast", 900, joins_at_seconds=25.0)]
    _, events = play(small_job("csa", **{**RULES, "min_learners": 2, "rounds": 4}), late)
    assert set(shares(events, 1)) == {"slow", "middling"}
    assert set(shares(events, 4)) == {"slow", "middling", "fast"}
    assert sum(count for count, _ in shares(events, 4).values()) == 45


def test_profiles_are_sent_only_to_policies_that_need_them(monkeypatch):
    declared = {}
    plain = SingleJob.declare

    async def declare(self, session: str, declaration: Declaration) -> None:
        declared.setdefault(self._prepared.job.allocation.__class__.__name__, []).append(declaration.profile)
        await plain(self, session, declaration)

    monkeypatch.setattr(SingleJob, "declare", declare)
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
        {"train": [1.0], "down": [1.0], "up": [1.0], "latency_seconds": -1.0},
        {"train": ["fast"], "down": [1.0], "up": [1.0]},
        {},
    ],
)
def test_profiles_that_cannot_be_are_refused_in_one_line(profile):
    by_hand = ByHand("csa")

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), []) as node:
            session = await by_hand.join()
            with pytest.raises(PacelineError) as raised:
                await node.connect(OrchestratorService).declare.coro(session, {"profile": profile})
        assert not isinstance(raised.value, RemoteError)  # it did not get as far as the orchestrator's code
        assert "\n" not in str(raised.value)

    by_hand.play(main)


def test_profiles_of_absurd_devices_do_no_harm():
    """A device that claims to be a thousand million times slower, or faster, than any is no reason to fall over."""
    by_hand = ByHand("csa", rounds=1, min_learners=2, deadline_seconds=5.0)

    async def main(orchestrator):
        sessions = [await by_hand.join(name) for name in ("still", "wild")]
        for session, rate in zip(sessions, (5e-324, 1.7e308), strict=True):
            profile = Profile(train=Rate(rate), down=Rate(rate), up=Rate(rate))
            await orchestrator.declare(session, Declaration(profile=profile))
        tickets = await asyncio.gather(*(orchestrator.next_round(session, 0, None) for session in sessions))
        await asyncio.sleep(6)
        return tickets

    still, wild = by_hand.play(main)
    assert still.allocation.num_shards == 0
    assert wild.allocation.num_shards == by_hand.prepared.terms.num_shards
    assert closed(by_hand.events)[0].num_updates == 0


def test_with_overtime_a_round_waits_and_nobody_halts():
    """All of the data takes these three 1.2 s at the least, and transfers."""
    for overtime, is_halted in ((0.0, True), (3.0, False)):
        job = small_job("csa", rounds=2, min_learners=3, deadline_seconds=0.9, overtime=overtime)
        _, events = play(job, FLEET, is_time_only=True)
        assert all((0.2 < event.truancy < 3.0) if overtime else event.truancy <= 0 for event in closed(events))
        assert any(event.is_halted for event in of(RoundSpent, events)) == is_halted
    assert all(event.num_updates == 3 and event.late == () for event in closed(events))
    assert {event.num_samples for event in closed(events)} == {1438}


def test_overtime_ends():
    fleet = [device("a", 900), device("b", 900, dies_at_seconds=1.5)]
    _, events = play(small_job("sync", rounds=2, min_learners=1, deadline_seconds=2.0, overtime=1.0), fleet)
    first, second = closed(events)
    assert (first.seconds, first.truancy, first.late) == (pytest.approx(4.0), pytest.approx(1.0), ("b",))
    assert (second.num_updates, second.late) == (1, ())


@pytest.mark.parametrize(
    ("policy", "hint"),
    [("csa", r" \(least that works: 0.4 s\)"), ("sync", r" \(least that works: 0.4 s\)"), ("eta", "")],
)
def test_a_deadline_in_which_nothing_is_trained_is_named(policy, hint):
    message = f"nothing was trained in 2 rounds: no update came by the deadline of 0.01 s; use a longer one{hint}, sm"
    job = small_job(policy, **{**RULES, "rounds": 2, "deadline_seconds": 0.01, "min_learners": 1})
    events = []
    with pytest.raises(PacelineError, match=message):
        play(job, [device("slow", 100)], emit=events.append)
    assert [event.reason for event in of(RunEnded, events)] == ["nothing trained"]
