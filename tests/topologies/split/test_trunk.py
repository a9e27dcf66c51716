"""What the trunk replies, call by call: to whom asks twice, comes back, comes new, or is far behind."""

import asyncio

import pytest
import torch

from paceline.topologies.split.barrier import EpochBarrier
from paceline.topologies.split.events import JunctionChanged, SourceMasked, SplitEpochEnded
from paceline.topologies.split.messages import SyncPoint
from tests.topologies.split.runs import farthest
from tests.topologies.split.trunk_harness import beside_trunk, meanwhile


@beside_trunk(sources=1, epochs=1)
async def test_what_is_sent_twice_counts_once(harness):
    (alone,) = await harness.begin("alone")
    twice = await asyncio.gather(alone.sync(1, 0), alone.sync(1, 0))
    again = await alone.sync(1, 0, {"values": torch.full((32, 50), 9.0)})  # its reply was lost, it seems
    first, *others = [reply.tensors["values"] for reply in (*twice, again)]
    assert all(torch.equal(first, other) for other in others)
    await alone.sync_all(1, 1)
    assert (await alone.sync(1, 3, None)).status == "ready"
    await alone.take_part(1)
    await harness.over()
    (ended,) = harness.of(SplitEpochEnded)
    assert (ended.num_steps, ended.num_samples) == (2, 64)


@beside_trunk(sources=1, test_epochs=2, backup_epochs=0)
async def test_the_last_reply_of_an_epoch_is_given_again_in_the_next(harness):
    (alone,) = await harness.begin("alone")
    await alone.sync(1, 0)
    reply = await alone.sync(1, 1)
    await asyncio.sleep(1)  # the trunk is in epoch 2
    assert torch.equal((await alone.sync(1, 1)).tensors["values"], reply.tensors["values"])
    await alone.take_part(1)


@beside_trunk(patience_seconds=100.0, epochs=1)
async def test_who_waits_long_has_to_ask_again(harness):
    quick, slow = await harness.begin("quick", "slow")
    assert (await quick.sync(1, 0)).status == "wait"
    assert (await quick.sync(1, 0, None)).status == "wait"
    async with meanwhile(slow.take_part()):
        assert (await quick.sync(1, 0, None)).status == "ready"
        await quick.sync_all(1, 1)
        await quick.take_part(1)
    await harness.over()
    assert harness.of(SourceMasked) == []


@beside_trunk(epochs=3)
async def test_the_copy_of_a_branch_is_given_to_who_has_lost_it_even_if_the_ticket_is_lost(harness):
    lost = []

    def loses_second_ticket(request):
        lost.append(request.path.endswith("next_epoch"))
        return lost.count(True) == 1 and lost[-1]

    first, other = harness.source("a"), harness.source("b")
    await asyncio.gather(first.join(), other.join())
    async with meanwhile(other.take_part()):
        await first.next_epoch()
        await first.sync_all(1)
        again = harness.source("a", loses_reply=loses_second_ticket)
        await again.join()
        with pytest.raises(Exception, match="the reply was lost"):
            await again.next_epoch()
        ticket = await again.next_epoch()
        assert (ticket.status, ticket.epoch) == ("open", 2)
        assert farthest(ticket.parameters, first.content(1, 3)) == 0
        await again.sync_all(ticket.epoch, ticket.index)
        assert (await again.next_epoch(2)).parameters == {}  # its own are right
        await again.take_part(2)


@beside_trunk(epochs=3)
async def test_a_newcomer_is_given_the_mean_of_the_branches(harness):
    a, bb = await harness.begin("a", "bb")
    new = harness.source("new")
    await asyncio.gather(a.sync_all(1), bb.sync_all(1))  # which leave copies that differ by 1
    async with meanwhile(asyncio.gather(a.take_part(1), bb.take_part(1))):
        assert (await new.join()).number == 3
        ticket = await new.next_epoch()
        assert (ticket.epoch, ticket.index) == (3, 0)
        mean = {kind: vector + 1.5 for kind, vector in new.branch().items()}
        assert farthest(ticket.parameters, mean) < 1e-6
        await new.sync_all(3)
        await new.take_part(3)


@beside_trunk(epochs=3)
async def test_the_number_of_one_who_left_is_given_again(harness):
    a, b = await harness.begin("a", "b")
    await asyncio.gather(a.sync_all(1), b.sync_all(1))
    await b.trunk.leave.coro(b.session)
    await a.next_epoch(1)
    await a.sync_all(2)  # nobody waits for b
    assert (await a.next_epoch(2)).epoch == 3
    assert (await harness.source("c").join()).number == 2
    await a.take_part(2)
    await harness.over()
    assert harness.of(SourceMasked) == []
    assert [event.sources for event in harness.of(JunctionChanged)] == [("a",)]


@beside_trunk(num_samples=32 * 8, epochs=1)
async def test_who_is_late_is_sent_ahead_and_others_that_wait_there_are_not_forgotten(harness):
    """One is sent ahead; then the other, who was to send something before that, vanishes."""
    a, b = await harness.begin("a", "b")
    assert (await a.sync(1, 0)).status == "ready"  # b was waited for, in vain
    ticket = await b.next_epoch()
    assert (ticket.status, ticket.index) == ("open", 3)
    await b.sync_all(1, 3)  # a sends nothing more
    await b.take_part(1)
    await harness.over()
    masked = [(event.learner, event.step) for event in harness.of(SourceMasked)]
    assert masked == [("b", 1), ("a", 2)]
    (ended,) = harness.of(SplitEpochEnded)
    assert ended.num_steps == 6  # of 8: two were nobody's


@beside_trunk(epochs=1)
async def test_who_waits_for_the_next_epoch_takes_over_if_nobody_else_comes(harness):
    a, b = await harness.begin("a", "b")
    await a.sync(1, 0)  # b was waited for, in vain
    await a.sync(1, 1)
    ticket = await b.next_epoch()  # there is no sync point so far ahead; and a sends nothing more
    assert (ticket.status, ticket.index) == ("open", 2)
    await b.sync_all(1, 2)
    await b.take_part(1)
    await harness.over()
    masked = [(event.learner, event.reason) for event in harness.of(SourceMasked)]
    assert masked == [("b", "nothing came of it for 1 s"), ("a", "nothing came of it for 10 s")]


def test_who_is_masked_while_others_work_gets_no_reply():
    async def main():
        barrier = EpochBarrier(1, [SyncPoint("step", 0), SyncPoint("step", 1)], 2)
        barrier.put("a", 0, 1)
        barrier.put("b", 0, 2)
        barrier.put("b", 1, 3)
        assert barrier.waiting_after(0) == {"b"}
        barrier.discard("b")
        assert barrier.received(0) == {"a": 1}
        barrier.reply({"a": {"values": torch.ones(1)}, "b": {"values": torch.ones(1)}})
        assert (await barrier.reply_to("a", 0, 1)).tensors.keys() == {"values"}
        assert (await barrier.reply_to("b", 0, 1)).status == "late"
        assert (await barrier.reply_to("b", 1, 0.01)).status == "wait"
        barrier.close()
        assert (await barrier.reply_to("b", 1, 1)).status == "late"

    asyncio.run(main())


def test_replies_are_kept_for_a_few_sync_points_only():
    async def main():
        barrier = EpochBarrier(1, [SyncPoint("step", number) for number in range(5)], 2)
        for index in range(5):
            barrier.put("a", index, None)
            barrier.reply({})
        assert [(await barrier.reply_to("a", index, 1)).status for index in range(5)] == ["late"] * 3 + ["ready"] * 2

    asyncio.run(main())
