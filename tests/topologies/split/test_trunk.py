"""What the trunk answers, call by call: to whom asks twice, comes back, comes new, or is far behind."""

import asyncio

import pytest
import torch

from paceline.topologies.split.events import JunctionChanged, SourceMasked, SplitEpochEnded
from paceline.topologies.split.gathering import Gathering
from paceline.topologies.split.messages import Meeting
from tests.topologies.split.runs import farthest
from tests.topologies.split.table import Table, meanwhile, together


def test_what_is_brought_twice_counts_once():
    table = Table(sources=1, epochs=1)

    async def main():
        alone = table.source("alone")
        await alone.join()
        await alone.next_epoch()
        twice = await together(alone.bring(1, 0), alone.bring(1, 0))
        again = await alone.bring(1, 0, {"values": torch.full((32, 50), 9.0)})  # its reply was lost, it seems
        first, *others = [answer.tensors["values"] for answer in (*twice, again)]
        assert all(torch.equal(first, other) for other in others)
        await alone.attend(1, 1)
        assert (await alone.bring(1, 3, None)).status == "ready"
        await alone.take_part(1)

    table.play(main)
    (ended,) = table.of(SplitEpochEnded)
    assert (ended.num_steps, ended.num_samples) == (2, 64)


def test_the_last_answer_of_an_epoch_is_given_again_in_the_next():
    table = Table(sources=1, test_epochs=2, backup_epochs=0)

    async def main():
        alone = table.source("alone")
        await alone.join()
        await alone.next_epoch()
        await alone.bring(1, 0)
        answer = await alone.bring(1, 1)
        await asyncio.sleep(1)  # the trunk is in epoch 2
        assert torch.equal((await alone.bring(1, 1)).tensors["values"], answer.tensors["values"])
        await alone.take_part(1)

    table.play(main)


def test_who_waits_long_is_told_to_ask_again():
    table = Table(patience_seconds=100.0, epochs=1)

    async def main():
        quick, slow = table.source("quick"), table.source("slow")
        await together(quick.join(), slow.join())
        await together(quick.next_epoch(), slow.next_epoch())
        assert (await quick.bring(1, 0)).status == "wait"
        assert (await quick.bring(1, 0, None)).status == "wait"
        async with meanwhile(slow.take_part()):
            assert (await quick.bring(1, 0, None)).status == "ready"
            await quick.attend(1, 1)
            await quick.take_part(1)

    table.play(main)
    assert table.of(SourceMasked) == []


def test_the_copy_of_a_branch_is_given_to_who_has_lost_it_even_if_the_ticket_is_lost():
    table = Table(epochs=3)
    lost = []

    def loses_second_ticket(request):
        lost.append(request.path.endswith("next_epoch"))
        return lost.count(True) == 1 and lost[-1]

    async def main():
        first, other = table.source("a"), table.source("b")
        await together(first.join(), other.join())
        async with meanwhile(other.take_part()):
            await first.next_epoch()
            await first.attend(1)
            again = table.source("a", loses_reply=loses_second_ticket)
            await again.join()
            with pytest.raises(Exception, match="the reply was lost"):
                await again.next_epoch()
            ticket = await again.next_epoch()
            assert (ticket.status, ticket.epoch) == ("open", 2)
            assert farthest(ticket.parameters, first.content(1, 3)) == 0
            await again.attend(ticket.epoch, ticket.index)
            assert (await again.next_epoch(2)).parameters == {}  # its own are right
            await again.take_part(2)

    table.play(main)


def test_a_newcomer_is_given_the_mean_of_the_branches():
    table = Table(epochs=3)

    async def main():
        a, bb, new = table.source("a"), table.source("bb"), table.source("new")
        await together(a.join(), bb.join())
        await together(a.next_epoch(), bb.next_epoch())
        await together(a.attend(1), bb.attend(1))  # which leave copies that differ by 1
        async with meanwhile(together(a.take_part(1), bb.take_part(1))):
            assert (await new.join()).number == 3
            ticket = await new.next_epoch()
            assert (ticket.epoch, ticket.index) == (3, 0)
            mean = {kind: vector + 1.5 for kind, vector in new.branch().items()}
            assert farthest(ticket.parameters, mean) < 1e-6
            await new.attend(3)
            await new.take_part(3)

    table.play(main)


def test_the_number_of_one_who_left_is_given_again():
    table = Table(epochs=3)

    async def main():
        a, b, c = (table.source(name) for name in "abc")
        assert [(await one.join()).number for one in (a, b)] == [1, 2]
        await together(a.next_epoch(), b.next_epoch())
        await together(a.attend(1), b.attend(1))
        await b.trunk.leave.coro(b.session)
        await a.next_epoch(1)
        await a.attend(2)  # nobody waits for b
        assert (await a.next_epoch(2)).epoch == 3
        assert (await c.join()).number == 2
        await a.take_part(2)

    table.play(main)
    assert table.of(SourceMasked) == []
    assert [event.sources for event in table.of(JunctionChanged)] == [("a",)]


def test_who_is_late_is_sent_ahead_and_others_that_wait_there_are_not_forgotten():
    """One is sent ahead; then the other, who was to hold the meetings before that, vanishes."""
    table = Table(num_samples=32 * 8, epochs=1)

    async def main():
        a, b = table.source("a"), table.source("b")
        await together(a.join(), b.join())
        await together(a.next_epoch(), b.next_epoch())
        assert (await a.bring(1, 0)).status == "ready"  # b was waited for, in vain
        ticket = await b.next_epoch()
        assert (ticket.status, ticket.index) == ("open", 3)
        await b.attend(1, 3)  # a brings nothing more
        await b.take_part(1)

    table.play(main)
    masked = [(event.learner, event.step) for event in table.of(SourceMasked)]
    assert masked == [("b", 1), ("a", 2)]
    (ended,) = table.of(SplitEpochEnded)
    assert ended.num_steps == 6  # of 8: two were nobody's


def test_who_waits_for_the_next_epoch_takes_over_if_nobody_else_comes():
    table = Table(epochs=1)

    async def main():
        a, b = table.source("a"), table.source("b")
        await together(a.join(), b.join())
        await together(a.next_epoch(), b.next_epoch())
        await a.bring(1, 0)  # b was waited for, in vain
        await a.bring(1, 1)
        ticket = await b.next_epoch()  # there is no meeting so far ahead; and a brings nothing more
        assert (ticket.status, ticket.index) == ("open", 2)
        await b.attend(1, 2)
        await b.take_part(1)

    table.play(main)
    told = [(event.learner, event.reason) for event in table.of(SourceMasked)]
    assert told == [("b", "nothing came of it for 1 s"), ("a", "nothing came of it for 10 s")]


def test_who_is_masked_while_others_work_gets_no_answer():
    async def main():
        gathering = Gathering(1, [Meeting("step", 0), Meeting("step", 1)], 2)
        gathering.put("a", 0, 1)
        gathering.put("b", 0, 2)
        gathering.put("b", 1, 3)
        assert gathering.waiting_after(0) == {"b"}
        gathering.forget("b")
        assert gathering.brought(0) == {"a": 1}
        gathering.answer({"a": {"values": torch.ones(1)}, "b": {"values": torch.ones(1)}})
        assert (await gathering.answer_to("a", 0, 1)).tensors.keys() == {"values"}
        assert (await gathering.answer_to("b", 0, 1)).status == "late"
        assert (await gathering.answer_to("b", 1, 0.01)).status == "wait"
        gathering.end()
        assert (await gathering.answer_to("b", 1, 1)).status == "late"

    asyncio.run(main())


def test_answers_are_kept_for_a_few_meetings_only():
    async def main():
        gathering = Gathering(1, [Meeting("step", number) for number in range(5)], 2)
        for index in range(5):
            gathering.put("a", index, None)
            gathering.answer({})
        assert [(await gathering.answer_to("a", index, 1)).status for index in range(5)] == ["late"] * 3 + ["ready"] * 2

    asyncio.run(main())
