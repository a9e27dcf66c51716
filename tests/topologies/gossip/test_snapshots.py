"""What peers send and keep of each other's models, whole and in steps of 8 bits."""

import asyncio
import itertools

import pytest
import torch

from paceline.errors import BadReply
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.gossip.snapshots import Copies, Snapshots, mixed

NUM_VALUES = 3000  # more than a block, and no multiple of it


def model(value=0.0, count=0):
    return {"float32": torch.full((NUM_VALUES,), float(value)), "int64": torch.tensor([count])}


def drawn(seed):
    return {
        "float32": torch.randn(NUM_VALUES, generator=torch.Generator().manual_seed(seed)),
        "int64": torch.tensor([seed]),
    }


def alike(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[kind], other[kind]) for kind in one)


@pytest.mark.parametrize("epoch", [1, 0, -5, 10**12])
def test_one_that_is_not_is_not_waited_for_for_ever(run_virtual, epoch):
    async def main():
        reply = await Snapshots("none").reply(epoch, 0, 10)
        return reply.status, asyncio.get_running_loop().time()

    assert run_virtual(main()) == ("wait", 10.0)


def test_all_who_wait_get_the_model(run_virtual):
    async def main():
        snapshots = Snapshots("none")
        waiting = [asyncio.ensure_future(snapshots.reply(epoch, 0, 10)) for epoch in (1, 2, 2)]
        await asyncio.sleep(1)
        snapshots.add(1, model(1))
        await asyncio.sleep(1)
        snapshots.add(2, model(2))
        reply = await asyncio.gather(*waiting)
        return [one.epoch for one in reply], asyncio.get_running_loop().time(), len(asyncio.all_tasks())

    assert run_virtual(main()) == ([1, 2, 2], 2.0, 1)


def test_a_model_is_sent_at_once_and_in_place_of_one_that_is_not_kept_comes_the_next(run_virtual):
    async def main():
        snapshots = Snapshots("none")
        for epoch in range(1, 8):
            snapshots.add(epoch, model(epoch))
        replies = [await snapshots.reply(epoch, 0, 1) for epoch in (0, 1, 5, 6, 7)]
        assert asyncio.get_running_loop().time() == 0.0
        return replies

    replies = run_virtual(main())
    assert [reply.epoch for reply in replies] == [5, 5, 5, 6, 7]
    assert all((reply.status, reply.base) == ("ready", None) for reply in replies)
    assert all(alike(reply.parameters, model(reply.epoch)) for reply in replies)


def test_with_int8_both_ends_have_the_same_copy_and_it_stays_near(run_virtual):
    async def main():
        snapshots, copies, sizes = Snapshots("int8"), Copies(model()), []
        for epoch in range(1, 6):
            seen = snapshots.add(epoch, drawn(epoch))
            reply = await snapshots.reply(epoch, copies.epoch_of("b"), 1)
            sizes.append(reply.num_bytes)
            assert alike(copies.take("b", reply), seen)
            assert (seen["float32"] - drawn(epoch)["float32"]).abs().max() < 0.05
            assert seen["int64"].item() == epoch
        return sizes

    whole, *changes = run_virtual(main())
    assert whole == 4 * NUM_VALUES + 8
    assert all(size < 0.27 * whole for size in changes)


def test_what_int8_leaves_out_is_made_up_for(run_virtual):
    async def main():
        snapshots, goal = Snapshots("int8"), drawn(1)
        snapshots.add(1, model())
        return [(snapshots.add(epoch, goal)["float32"] - goal["float32"]).abs().max().item() for epoch in range(2, 6)]

    errors = run_virtual(main())
    assert all(later < earlier / 50 or later < 1e-7 for earlier, later in itertools.pairwise(errors))


@pytest.mark.parametrize("base", [0, 1, 3, 99])
def test_who_has_another_copy_is_sent_the_whole(run_virtual, base):
    async def main():
        snapshots = Snapshots("int8")
        for epoch in (1, 2, 3):
            seen = snapshots.add(epoch, drawn(epoch))
        return seen, await snapshots.reply(3, base, 1)

    seen, reply = run_virtual(main())
    assert reply.base is None
    assert alike(reply.parameters, seen)


CHANGE = {
    "float32": torch.ones(NUM_VALUES, dtype=torch.int8),
    "float32.scales": torch.ones(3),
    "int64": torch.tensor([1]),
}


def change(base=1, **changes):
    return ModelReply(status="ready", epoch=2, parameters={**CHANGE, **changes}, base=base)


RUBBISH = {
    "nothing": ModelReply(status="ready", epoch=2),
    "another shape": ModelReply(
        status="ready", epoch=2, parameters={**model(), "float32": torch.zeros(NUM_VALUES - 1)}
    ),
    "not a number": ModelReply(status="ready", epoch=2, parameters=model(float("nan"))),
    "absurd values": ModelReply(status="ready", epoch=2, parameters=model(1e30)),
    "a change of nothing known": change(base=7),
    "a change of another shape": change(float32=torch.ones(5, dtype=torch.int8)),
    "a change of another type": change(float32=torch.ones(NUM_VALUES)),
    "too few scales": change(**{"float32.scales": torch.ones(2)}),
    "scales that are no numbers": change(**{"float32.scales": torch.full((3,), float("nan"))}),
    "no scales": ModelReply(status="ready", epoch=2, parameters=model(), base=1),
}


@pytest.mark.parametrize("reply", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_refused_and_changes_no_copy(reply):
    copies = Copies(model())
    copies.take("b", ModelReply(status="ready", epoch=1, parameters=model(1)))
    with pytest.raises(BadReply, match="^b sent"):
        copies.take("b", reply)
    assert copies.epoch_of("b") == 1
    assert copies.take("b", change())["float32"][0] == 2


def test_who_is_not_kept_has_no_copy():
    copies = Copies(model())
    for learner in "bc":
        copies.take(learner, ModelReply(status="ready", epoch=4, parameters=model()))
    copies.keep_only(["c", "nobody"])
    assert [copies.epoch_of(learner) for learner in ("b", "c", "nobody")] == [0, 4, 0]


def test_models_are_mixed_by_their_weights_and_counters_stay():
    mine = model(1, count=5)
    result = mixed(mine, mine, {"b": model(3, count=9), "c": model(-1, count=9)}, {"b": 0.5, "c": 0.25})
    assert result["float32"][0] == pytest.approx(1 + 0.5 * 2 - 0.25 * 2)
    assert result["int64"].item() == 5
    assert mine["float32"][0] == 1
