"""Updates that cannot be used are refused with a reason, and the round goes on without them."""

import asyncio
import contextlib

import pytest
import torch

import paceline
from paceline.fleets import virtual_loop
from paceline.learning.datasets import DataSpec
from paceline.learning.vectors import Layout
from paceline.topologies.events import LearnerJoined
from paceline.topologies.parallel import Orchestrator, Surroundings, in_place, make_plan
from paceline.topologies.parallel import roster as roster_module
from paceline.topologies.parallel.events import ShardsTaken, UpdateRefused
from paceline.topologies.parallel.roster import Roster
from tests.topologies.parallel.runs import closed, of, small_job


class Table:
    """An orchestrator to call by hand, on virtual time."""

    def __init__(self, **changes):
        data = DataSpec(name="digits", shard_size=2)  # divides the data: all shards are full
        plan, state = make_plan(small_job(data=data, **changes))
        self.parameters = Layout(state).pack(state)
        self.told = []
        around = Surroundings(emit=self.told.append, aside=in_place, clock="virtual")
        self.orchestrator = Orchestrator(plan, state, around)

    @contextlib.asynccontextmanager
    async def played(self):
        running = asyncio.ensure_future(self.orchestrator.run())
        try:
            yield self.orchestrator
        finally:
            running.cancel()
            await asyncio.wait((running,))

    async def seat(self, name="a", shards=32):
        """Join, and take work in the first round."""
        offer = await self.orchestrator.join(name, paceline.__version__, 0.0)
        ticket = await self.orchestrator.next_round(offer.session, 0, None)
        await self.orchestrator.take(offer.session, ticket.round, shards)
        return offer.session


def with_value(value):
    def change(parameters):
        parameters["float32"][17] = value

    return change


def without_values(parameters):
    parameters.clear()


def with_other_values(parameters):
    parameters["int64"] = torch.zeros(1)


def with_another_length(parameters):
    parameters["float32"] = parameters["float32"][1:]


def with_another_shape(parameters):
    parameters["float32"] = parameters["float32"].view(2, -1)


def with_another_type(parameters):
    parameters["float32"] = parameters["float32"].double()


RUBBISH = [
    (with_value(float("nan")), "float32 holds NaN or infinity"),
    (with_value(float("inf")), "float32 holds NaN or infinity"),
    (with_value(-float("inf")), "float32 holds NaN or infinity"),
    (without_values, "parameters ['float32'] are missing"),
    (with_other_values, "there are no parameters ['int64']"),
    (with_another_length, "float32 has shape (4479,), not (4480,)"),
    (with_another_shape, "float32 has shape (2, 2240), not (4480,)"),
    (with_another_type, "float32 has type torch.float64, not torch.float32"),
]


@pytest.mark.parametrize(("change", "reason"), RUBBISH)
def test_rubbish_is_refused_and_the_round_goes_on(change, reason):
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            good, bad = await table.seat("good"), await table.seat("bad")
            rubbish = {kind: vector.clone() for kind, vector in table.parameters.items()}
            change(rubbish)
            receipt = await orchestrator.update(bad, 1, rubbish, 64)
            assert (receipt.is_accepted, receipt.reason) == (False, reason)
            assert (await orchestrator.update(good, 1, table.parameters, 64)).is_accepted
            await asyncio.sleep(0.1)

    virtual_loop.run(main())
    (end,) = closed(table.told)
    assert (end.num_updates, end.num_samples, end.late) == (1, 64, ("bad",))
    assert [event.reason for event in of(UpdateRefused, table.told)] == [reason]
    assert end.seconds == 0.0  # nobody waits for one that sent rubbish


@pytest.mark.parametrize("num_samples", [0, -1, 65, 10**12])
def test_impossible_counts_are_refused(num_samples):
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            session = await table.seat(shards=32)  # of 2 samples each
            return await orchestrator.update(session, 1, table.parameters, num_samples)

    receipt = virtual_loop.run(main())
    assert receipt.reason == f"{num_samples} samples are impossible; its shards allow 1 to 64"


def test_what_is_sent_twice_counts_once():
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            session = await table.seat()
            await table.seat("another")
            first = await orchestrator.update(session, 1, table.parameters, 64)
            second = await orchestrator.update(session, 1, table.parameters, 64)
            return first, second

    first, second = virtual_loop.run(main())
    assert first.is_accepted
    assert second.reason == "its update of round 1 is in already"


@pytest.mark.parametrize("number", [0, 2, -1, 10**9])
def test_other_rounds_are_refused(number):
    table = Table(rounds=3)

    async def main():
        async with table.played() as orchestrator:
            session = await table.seat()
            with pytest.raises(ValueError, match=f"round {number} is not open, round 1 is"):
                await orchestrator.take(session, number, 1)
            return await orchestrator.update(session, number, table.parameters, 64)

    assert virtual_loop.run(main()).reason == f"round {number} is not open"


def test_who_took_nothing_hands_in_nothing():
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            await table.seat("a")
            offer = await orchestrator.join("b", paceline.__version__, 0.0)
            return await orchestrator.update(offer.session, 1, table.parameters, 1)

    assert virtual_loop.run(main()).reason == "took no shards in round 1"


def test_late_updates_are_told_with_their_time():
    table = Table(rounds=2, min_learners=1)

    async def main():
        async with table.played() as orchestrator:
            session = await table.seat()
            await asyncio.sleep(4.5)  # the round closes at 4 s
            receipt = await orchestrator.update(session, 1, table.parameters, 64)
            assert receipt.reason == "round 1 is closed"

    virtual_loop.run(main())
    (late,) = of(UpdateRefused, table.told)
    assert (late.is_late, late.seconds) == (True, pytest.approx(4.5))
    assert closed(table.told)[0].late == ("a",)


def test_asking_again_gives_the_same_shards():
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            session = await table.seat(shards=3)
            first, second = [await orchestrator.take(session, 1, count) for count in (3, 20)]
            assert [x.tobytes() for x, _ in first.shards] == [x.tobytes() for x, _ in second.shards]
            assert len(first.shards) == 3

    virtual_loop.run(main())
    assert len(of(ShardsTaken, table.told)) == 1


@pytest.mark.parametrize("count", [0, -3, 1 << 40])
def test_impossible_shards_are_refused(count):
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            session = await table.seat()
            with pytest.raises(ValueError, match="cannot be taken"):
                await orchestrator.take(session, 1, count)
            if count:
                with pytest.raises(ValueError, match="shards to measure with"):
                    await orchestrator.sample(session, count, True)

    virtual_loop.run(main())


@pytest.mark.parametrize("name", ["", "a" * 65, "tab\there", "<script>", " leading", "new\nline"])
def test_unfit_names_are_refused(name):
    with pytest.raises(ValueError, match="cannot be a learner's name"):
        virtual_loop.run(Table().orchestrator.join(name, paceline.__version__, 0.0))


def test_another_version_is_refused():
    with pytest.raises(ValueError, match=r"version mismatch: the orchestrator runs paceline .*, the device 99.1.0"):
        virtual_loop.run(Table().orchestrator.join("a", "99.1.0", 0.0))


def test_a_newer_self_takes_the_seat():
    table = Table(rounds=1)

    async def main():
        async with table.played() as orchestrator:
            old = await table.seat("a")
            new = await table.seat("a")
            with pytest.raises(RuntimeError, match="another learner has joined as 'a'"):
                await orchestrator.update(old, 1, table.parameters, 64)
            assert (await orchestrator.update(new, 1, table.parameters, 64)).is_accepted

    virtual_loop.run(main())
    assert [event.is_back for event in of(LearnerJoined, table.told)] == [False, True]


def test_a_former_self_that_waits_is_told():
    table = Table(rounds=1, min_learners=2)

    async def main():
        async with table.played() as orchestrator:
            old = await orchestrator.join("a", paceline.__version__, 0.0)
            waiting = asyncio.ensure_future(orchestrator.next_round(old.session, 0, None))
            await asyncio.sleep(1)
            new = await orchestrator.join("a", paceline.__version__, 0.0)
            other = await orchestrator.join("b", paceline.__version__, 0.0)
            tickets = await asyncio.gather(*(orchestrator.next_round(offer.session, 0, None) for offer in (new, other)))
            assert [ticket.status for ticket in tickets] == ["open", "open"]
            with pytest.raises(RuntimeError, match="another learner has joined as 'a'"):
                await waiting

    virtual_loop.run(main())


def test_joining_over_and_over_keeps_one_former_session():
    roster = Roster()
    sessions = [roster.join("a")[0].session for _ in range(100)]
    assert roster.find(sessions[-1]).name == "a"
    with pytest.raises(RuntimeError, match="another learner"):
        roster.find(sessions[-2])
    with pytest.raises(LookupError, match="join again"):
        roster.find(sessions[-3])
    roster.remove(roster.find(sessions[-1]))
    with pytest.raises(LookupError, match="join again"):
        roster.find(sessions[-2])


def test_names_run_out(monkeypatch):
    monkeypatch.setattr(roster_module, "MAX_LEARNERS", 2)
    roster = Roster()
    roster.join("a")
    roster.remove(roster.join("b")[0])
    with pytest.raises(ValueError, match="2 learners have joined"):
        roster.join("c")
    assert roster.join("b")[1]


def test_no_more_than_was_allocated_can_be_taken():
    table = Table(policy="eta", rounds=1, min_learners=2)

    async def main():
        async with table.played() as orchestrator:
            offers = [await orchestrator.join(name, paceline.__version__, 0.0) for name in "ab"]
            tickets = await asyncio.gather(*(orchestrator.next_round(offer.session, 0, None) for offer in offers))
            share = tickets[0].allocation.num_shards
            with pytest.raises(ValueError, match=f"at most {share} can"):
                await orchestrator.take(offers[0].session, 1, share + 1)
            assert len((await orchestrator.take(offers[0].session, 1, share)).shards) == share

    virtual_loop.run(main())


def test_who_is_late_in_the_last_round_still_hears_of_the_end():
    table = Table(rounds=1)

    async def main():
        running = asyncio.ensure_future(table.orchestrator.run())
        session = await table.seat()
        await running
        ended_at = asyncio.get_running_loop().time()
        farewell = asyncio.ensure_future(table.orchestrator.farewell())
        await asyncio.sleep(2)
        assert not farewell.done()
        assert (await table.orchestrator.next_round(session, 1, None)).status == "over"
        await farewell
        assert asyncio.get_running_loop().time() == ended_at + 2

    virtual_loop.run(main())
