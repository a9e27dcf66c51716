"""Mixing after each epoch: whose models count, by how much, and what becomes of those that send rubbish."""

import asyncio

import pytest
import torch

from paceline.errors import Unreachable
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.gossip.mixing import MixingExchange
from tests.topologies.gossip.answers import context, model, record
from tests.topologies.gossip.swarm import shard

SHARD = shard(8)


def sends(value, epoch=1):
    return ModelReply(status="ready", epoch=epoch, parameters=model(value))


def mixed(run_virtual, given, *epochs):
    """Epochs of an exchange; returns what came of the last, and when."""

    async def main():
        exchange = MixingExchange(given)
        for epoch in epochs:
            result = await exchange.train(epoch, model(1), SHARD)
        await exchange.aclose()
        assert len(asyncio.all_tasks()) == 1
        return result, asyncio.get_running_loop().time()

    return run_virtual(main())


def test_models_of_all_neighbours_count_by_their_weights(run_virtual):
    given = context({"b": [sends(4)], "c": [sends(7)]})
    result, _ = mixed(run_virtual, given, 1)
    assert result.parameters["float32"].tolist() == pytest.approx([4.0] * 4)  # a third each
    assert result.num_exchanges == 2
    assert given.traffic.received == 2 * 16


def test_newcomers_are_not_waited_for_before_their_first_epoch(run_virtual):
    given = context({"b": [sends(4, 3)]})
    given.membership.merge([record("late", first_epoch=4)])
    result, _ = mixed(run_virtual, given, 3)
    assert result.num_exchanges == 1
    assert {call[0] for call in given.calls.made} == {"b"}


@pytest.mark.parametrize(("compression", "bases"), [("none", [0, 0]), ("int8", [0, 1])])
def test_copies_are_kept_only_where_changes_are_added_to_them(run_virtual, compression, bases):
    given = context({"b": [sends(4), sends(5, epoch=2)]}, compression=compression)
    mixed(run_virtual, given, 1, 2)
    assert [base for *_, base in given.calls.made] == bases


def test_one_that_says_wait_at_once_is_not_asked_without_a_pause(run_virtual):
    given = context({"b": [*[ModelReply(status="wait")] * 20, sends(3)]})
    result, at = mixed(run_virtual, given, 1)
    assert result.num_exchanges == 1
    assert at == pytest.approx(2.0)


RUBBISH = {
    "nothing at all": Unreachable("nobody is there"),
    "not a number": sends(float("nan")),
    "an epoch before": sends(1, epoch=0),
    "an epoch beyond the job": sends(1, epoch=11),
    "a change of nothing": ModelReply(status="ready", epoch=1, parameters={"float32": torch.zeros(4).char()}, base=0),
}


@pytest.mark.parametrize("reply", RUBBISH.values(), ids=RUBBISH)
def test_who_sends_rubbish_is_taken_for_gone_and_leaves_its_weight_to_oneself(run_virtual, reply):
    given = context({"b": [reply], "c": [sends(4)]})
    result, _ = mixed(run_virtual, given, 1)
    assert result.parameters["float32"].tolist() == pytest.approx([2.0] * 4)
    assert given.membership.get("b").status == "dead"
    assert given.membership.get("c").is_living


def test_where_a_change_does_not_fit_the_whole_is_asked_for(run_virtual):
    change = ModelReply(status="ready", epoch=2, parameters={"float32": torch.ones(4).char()}, base=0)
    given = context({"b": [sends(4), change, sends(5, epoch=2)]}, compression="int8")
    result, _ = mixed(run_virtual, given, 1, 2)
    assert result.num_exchanges == 1
    assert given.calls.made == [("b", "fetch_model", 1, 0), ("b", "fetch_model", 2, 1), ("b", "fetch_model", 2, 0)]


def test_overlap_mixes_an_epoch_late_and_the_last_at_the_end(run_virtual):
    given = context({"b": [sends(5), sends(9, epoch=2)]}, overlaps=True)

    async def main():
        exchange = MixingExchange(given)
        first = await exchange.train(1, model(1), SHARD)
        second = await exchange.train(2, first.parameters, SHARD)
        last = await exchange.finish(second.parameters)
        await exchange.aclose()
        return first, second, last

    first, second, last = run_virtual(main())
    assert (first.num_exchanges, first.parameters["float32"][0].item()) == (0, 1.0)
    assert second.parameters["float32"][0].item() == pytest.approx(1 + (5 - 1) / 4)
    assert last["float32"][0].item() == pytest.approx(2 + (9 - 2) / 4)


def test_there_are_no_pushes_in_it(run_virtual):
    with pytest.raises(ValueError, match="no pushes"):
        run_virtual(MixingExchange(context()).push("t", 1, model()))
    assert MixingExchange(context()).share(record("b"), "t") == 0
