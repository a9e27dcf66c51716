"""What an orchestrator refuses, and with which reason; the round goes on without it."""

import asyncio

import msgspec
import pytest
import torch

import paceline
from paceline.devices.profiles import Outlook, Profile, Rate
from paceline.errors import PacelineError
from paceline.fleets import virtual_loop
from paceline.topologies.base import Environment, run_in_place
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel.events import ShardsTaken, UpdateRefused
from paceline.topologies.parallel.messages import Declaration, OrchestratorService
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import ByHand, closed, node_of, of, small_job


def with_value(value):
    def change(parameters):
        parameters["float32"][17] = value

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda given: given.clear(), "parameters ['float32'] are missing"),
        (lambda given: given.update(int64=torch.zeros(1)), "there are no parameters ['int64']"),
        (lambda given: given.update(float32=given["float32"][1:]), "float32 has shape (4479,), not (4480,)"),
    ],
)
def test_rubbish_is_refused_and_the_round_goes_on(change, reason):
    by_hand = ByHand(rounds=1)

    async def main(orchestrator):
        good, bad = await by_hand.take("good"), await by_hand.take("bad")
        rubbish = {kind: vector.clone() for kind, vector in by_hand.parameters.items()}
        change(rubbish)
        receipt = await orchestrator.update(bad, 1, rubbish, 64)
        assert (receipt.is_accepted, receipt.reason) == (False, reason)
        assert (await orchestrator.update(good, 1, by_hand.parameters, 64)).is_accepted
        await asyncio.sleep(0.1)

    by_hand.play(main)
    (end,) = closed(by_hand.events)
    assert (end.num_updates, end.num_samples, end.late) == (1, 64, ("bad",))
    assert [event.reason for event in of(UpdateRefused, by_hand.events)] == [reason]
    assert end.seconds == 0.0  # nobody waits for one that sent rubbish


@pytest.mark.parametrize(
    ("number", "num_samples", "reason"),
    [
        (1, 65, "65 samples are impossible; its shards allow 1 to 64"),
        (0, 64, "round 0 is not open"),
        (2, 64, "round 2 is not open"),
    ],
)
def test_updates_that_cannot_be_are_refused(number, num_samples, reason):
    by_hand = ByHand(rounds=3)

    async def main(orchestrator):
        session = await by_hand.take(num_shards=32)  # of 2 samples each
        return await orchestrator.update(session, number, by_hand.parameters, num_samples)

    assert by_hand.play(main).reason == reason


def test_updates_sent_twice_or_without_shards_do_not_count():
    by_hand = ByHand(rounds=1)

    async def main(orchestrator):
        session, idle = await by_hand.take(), await by_hand.join("idle")
        await by_hand.take("another")
        return [await orchestrator.update(one, 1, by_hand.parameters, 64) for one in (session, session, idle)]

    first, second, third = by_hand.play(main)
    assert first.is_accepted
    assert second.reason == "its update of round 1 is in already"
    assert third.reason == "took no shards in round 1"


def test_late_updates_are_recorded_with_their_time():
    by_hand = ByHand(rounds=2)

    async def main(orchestrator):
        session = await by_hand.take()
        await asyncio.sleep(4.5)  # the round closes at 4 s
        return await orchestrator.update(session, 1, by_hand.parameters, 64)

    assert by_hand.play(main).reason == "round 1 is closed"
    (late,) = of(UpdateRefused, by_hand.events)
    assert (late.is_late, late.seconds) == (True, pytest.approx(4.5))
    assert closed(by_hand.events)[0].late == ("a",)


def test_asking_again_gives_the_same_shards():
    by_hand = ByHand(rounds=1)

    async def main(orchestrator):
        session = await by_hand.take(num_shards=3)
        return [await orchestrator.take(session, 1, count) for count in (3, 20)]

    first, second = by_hand.play(main)
    assert [x.tobytes() for x, _ in first.shards] == [x.tobytes() for x, _ in second.shards]
    assert len(first.shards) == 3
    assert len(of(ShardsTaken, by_hand.events)) == 1


@pytest.mark.parametrize("count", [-3, 1 << 40])
def test_impossible_shards_are_refused(count):
    by_hand = ByHand(rounds=1)

    async def main(orchestrator):
        session = await by_hand.take()
        with pytest.raises(ValueError, match="cannot be taken"):
            await orchestrator.take(session, 1, count)
        with pytest.raises(ValueError, match="shards to measure with"):
            await orchestrator.sample(session, count, True)
        with pytest.raises(ValueError, match="round 2 is not open, round 1 is"):
            await orchestrator.take(session, 2, 1)

    by_hand.play(main)


def test_no_more_than_was_allocated_can_be_taken():
    by_hand = ByHand("eta", rounds=1, min_learners=2)

    async def main(orchestrator):
        sessions = [await by_hand.join(name) for name in "ab"]
        tickets = await asyncio.gather(*(orchestrator.next_round(session, 0, None) for session in sessions))
        most = tickets[0].allocation.num_shards
        with pytest.raises(ValueError, match=f"at most {most} can"):
            await orchestrator.take(sessions[0], 1, most + 1)
        assert len((await orchestrator.take(sessions[0], 1, most)).shards) == most

    by_hand.play(main)


def test_unfit_names_and_other_versions_are_refused():
    orchestrator = ByHand().orchestrator
    with pytest.raises(ValueError, match="cannot be a device's name"):
        virtual_loop.run(orchestrator.join("<script>", paceline.__version__, 0.0))
    with pytest.raises(ValueError, match="price is -1"):
        virtual_loop.run(orchestrator.join("a", paceline.__version__, -1.0))
    with pytest.raises(ValueError, match=r"version mismatch: the host runs paceline .*, the device 99.1.0"):
        virtual_loop.run(orchestrator.join("a", "99.1.0", 0.0))


def test_who_joins_under_a_name_that_is_there_takes_its_place():
    by_hand = ByHand(rounds=1, min_learners=2)

    async def main(orchestrator):
        old = await by_hand.join()
        waiting = asyncio.ensure_future(orchestrator.next_round(old, 0, None))
        await asyncio.sleep(1)
        sessions = [await by_hand.join(), await by_hand.join("b")]
        tickets = await asyncio.gather(*(orchestrator.next_round(session, 0, None) for session in sessions))
        assert [ticket.status for ticket in tickets] == ["open", "open"]
        for refused in (waiting, orchestrator.update(old, 1, by_hand.parameters, 64)):
            with pytest.raises(RuntimeError, match="another device has joined as 'a'"):
                await refused
        await orchestrator.take(sessions[0], 1, 32)
        assert (await orchestrator.update(sessions[0], 1, by_hand.parameters, 64)).is_accepted

    by_hand.play(main)
    assert [event.is_back for event in of(LearnerJoined, by_hand.events)] == [False, True, False]


def test_who_is_late_in_the_last_round_still_hears_of_the_end():
    by_hand = ByHand(rounds=2)

    async def main():
        orchestrator, loop = by_hand.orchestrator, asyncio.get_running_loop()
        running = asyncio.ensure_future(orchestrator.run(""))
        session = await by_hand.take()
        await orchestrator.update(session, 1, by_hand.parameters, 64)
        await orchestrator.next_round(session, 1, None)
        await running
        ended_at = loop.time()
        draining = asyncio.ensure_future(orchestrator.drain())
        await asyncio.sleep(2)
        assert not draining.done()
        assert (await orchestrator.next_round(session, 2, None)).status == "over"
        await draining
        assert loop.time() == ended_at + 2

    virtual_loop.run(main())


async def exchange(call):
    """Call an orchestrator over a network by hand, as a learner; returns what it says to that."""
    host = SingleJob(prepare_job(small_job("csa")), Environment(clock="virtual", run_blocking=run_in_place))
    plan = JobPlan(prepare_job(small_job("csa")))
    async with node_of(host, plan, []) as node:
        remote = node.connect(OrchestratorService)
        welcome = await remote.join.coro("a", paceline.__version__, 0.0)
        with pytest.raises(PacelineError) as refused:
            await call(remote, welcome.session)
    return str(refused.value)


RATE = Rate(1.0)
OUTLOOK = Outlook(state="idle", probability=0.5, profile=Profile(train=RATE, down=RATE, up=RATE))


@pytest.mark.parametrize(
    "declaration",
    [
        {"outlook": (OUTLOOK,) * 1000},
        {"outlook": (msgspec.structs.replace(OUTLOOK, probability=1.0),), "state": "x" * 10_000},
        {"max_shards": 1 << 60},
        {"max_shards": -1},
    ],
    ids=["states", "name", "shards", "negative"],
)
def test_declarations_are_bounded(declaration):
    def declare(remote, session):
        return remote.declare.coro(session, Declaration(**declaration))

    message = virtual_loop.run(exchange(declare))
    assert "declaration" in message
    assert len(message) < 1000


def test_what_a_learner_says_of_itself_is_bounded_in_other_calls_too():
    message = virtual_loop.run(exchange(lambda remote, session: remote.next_round.coro(session, 0, "x" * 10_000)))
    assert "state" in message
    assert "price is 1e+300; allowed: 0 to 1e+15" in virtual_loop.run(
        exchange(lambda remote, session: remote.join.coro("b", paceline.__version__, 1e300))
    )


def test_who_repeats_itself_does_not_fill_the_record():
    by_hand = ByHand(rounds=1)

    async def main(orchestrator):
        session = await by_hand.take("a")
        for _ in range(1000):
            assert not (await orchestrator.update(session, 1, by_hand.parameters, 10**6)).is_accepted

    by_hand.play(main)
    assert len(of(UpdateRefused, by_hand.events)) == 20
