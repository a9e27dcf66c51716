"""Pushes at random: what is accepted, what comes back, and to whom nobody pushes."""

import asyncio

import pytest
import torch

from paceline.errors import ConnectionLost, Refused, RemoteError, TimedOut, Unreachable
from paceline.topologies.gossip.calls import Gone
from paceline.topologies.gossip.mass import FULL_MASS, MAX_MASS
from paceline.topologies.gossip.push_sum import PushSumExchange
from tests.topologies.gossip.answers import context, model, record
from tests.topologies.gossip.swarm import shard


def begun(given):
    exchange = PushSumExchange(given)
    exchange.begin(FULL_MASS)
    return exchange


@pytest.fixture
def exchange():
    return begun(context(exchange="push-sum"))


def test_a_push_that_arrives_is_merged_by_its_mass(run_virtual, exchange):
    async def main():
        assert await exchange.push("t", FULL_MASS // 2, model(3))
        assert exchange.mass == 1.5
        return await exchange.finish(model(0))

    assert run_virtual(main())["float32"].tolist() == pytest.approx([1.0] * 4)
    assert (exchange.account.mass, exchange.account.waiting) == (FULL_MASS + FULL_MASS // 2, 0)


def test_a_repeated_push_counts_once_also_when_it_is_too_late_for_others(run_virtual, exchange):
    async def main():
        answers = [await exchange.push("t", 5, model(3)), await exchange.push("t", 5, model(3))]
        await exchange.finish(model(0))
        return [*answers, await exchange.push("t", 5, model(3)), await exchange.push("u", 5, model(3))]

    assert run_virtual(main()) == [True, True, True, False]
    assert exchange.account.mass == FULL_MASS + 5


@pytest.mark.parametrize("mass", [0, -1, MAX_MASS + 1, 10**400])
def test_forged_mass_is_refused(run_virtual, exchange, mass):
    with pytest.raises(ValueError, match="mass of a push") as caught:
        run_virtual(exchange.push("t", mass, model()))
    assert len(str(caught.value)) < 200
    assert exchange.account.waiting == 0


@pytest.mark.parametrize(
    "parameters",
    [{}, model(float("nan")), model(1e30), {"float32": torch.zeros(3)}, {"float32": torch.zeros(4).half()}],
    ids=["nothing", "not a number", "absurd", "another shape", "another type"],
)
def test_rubbish_is_refused(run_virtual, exchange, parameters):
    with pytest.raises(ValueError, match="do not fit"):
        run_virtual(exchange.push("t", 1, parameters))
    assert not exchange.account.has_arrived("t")


def test_only_so_many_wait(run_virtual, exchange):
    async def main():
        return [await exchange.push(str(number), 1, model()) for number in range(70)]

    answers = run_virtual(main())
    assert answers == [True] * 64 + [False] * 6
    assert exchange.account.waiting == 64


def train_once(run_virtual, exchange, num_samples=64):
    async def main():
        result = await exchange.train(1, model(1), shard(num_samples))
        last = await exchange.finish(result.parameters)
        await exchange.aclose()
        assert len(asyncio.all_tasks()) == 1
        return result, last

    return run_virtual(main())


def test_every_push_that_is_taken_brings_half(run_virtual):
    given = context({"b": [True]}, exchange="push-sum", push_probability=1.0, batch_size=16)
    exchange = begun(given)
    result, _ = train_once(run_virtual, exchange)
    assert [call[:2] for call in given.calls.made] == [("b", "push")] * 4
    assert exchange.account.mass == FULL_MASS // 16
    assert exchange.account.under_way == []
    assert result.num_samples == 64
    assert given.traffic.sent == 4 * 16


@pytest.mark.parametrize(
    ("answers", "under_way"),
    [
        ([False], []),
        ([Unreachable("nobody")], []),
        ([Refused("busy", status=503)], []),
        ([RemoteError("ValueError", "no", device="b")], []),
        ([TimedOut("late")], [FULL_MASS // 2]),
        ([ConnectionLost("on the way")], [FULL_MASS // 2]),
        ([ConnectionLost("on the way"), Unreachable("nobody")], [FULL_MASS // 2]),
        ([ConnectionLost("on the way"), Refused("busy", status=503)], [FULL_MASS // 2]),
        ([asyncio.CancelledError()], [FULL_MASS // 2]),
    ],
    ids=str,
)
def test_what_certainly_did_not_arrive_is_taken_back_and_the_rest_stays_under_way(
    run_virtual, monkeypatch, answers, under_way
):
    given = context({"b": [True]}, exchange="push-sum", push_probability=1.0, batch_size=64)
    exchange = begun(given)
    monkeypatch.setattr(given.calls, "call", calling(*answers))
    train_once(run_virtual, exchange)
    assert [push.mass for push in exchange.account.under_way] == under_way
    assert exchange.account.mass == FULL_MASS - sum(under_way)


def calling(*answers):
    """In place of `PeerCalls.call`: the peer answers so, one attempt after the other; an error at last means gone."""

    async def call(name, ask):
        for answer in answers:
            try:
                return await ask(Answering(answer))
            except (Exception, asyncio.CancelledError) as error:
                last = error
        raise Gone(f"{name} is gone: {last}")

    return call


class Answering:
    """A remote peer that gives one answer to a push."""

    def __init__(self, answer):
        self._answer = answer

    @property
    def push(self):
        return self

    async def coro(self, *arguments):
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def test_nobody_pushes_to_those_that_are_done(run_virtual):
    given = context({"b": [True], "c": [True]}, exchange="push-sum", push_probability=1.0, batch_size=4)
    given.membership.merge([record("b", beat=1, is_done=True)])
    exchange = begun(given)
    train_once(run_virtual, exchange)
    assert {call[0] for call in given.calls.made} == {"c"}
    given.membership.merge([record("c", beat=1, is_done=True)])
    before = len(given.calls.made)
    train_once(run_virtual, begun(given))
    assert len(given.calls.made) == before


def test_pushes_that_hardly_ever_come_cost_nothing(run_virtual):
    given = context({"b": [True]}, exchange="push-sum", push_probability=1e-300, batch_size=16)
    train_once(run_virtual, begun(given))
    assert given.trainer.trained == [64]
    assert given.calls.made == []


def test_no_sample_is_left_over_alone(run_virtual):
    given = context({"b": [True]}, exchange="push-sum", push_probability=1.0, batch_size=16)
    result, _ = train_once(run_virtual, begun(given), num_samples=33)
    assert given.trainer.trained == [16, 17]
    assert result.num_samples == 33
    assert len(given.calls.made) == 2


def test_a_newcomer_is_given_a_share_once_in_its_life(exchange):
    first = exchange.share(record("n"), "n/1")
    assert first == FULL_MASS // 2
    assert exchange.share(record("n"), "n/1/again") == first
    assert exchange.account.mass == FULL_MASS - first
    assert exchange.share(record("n", life=2), "n/2") == FULL_MASS // 4


def test_models_cannot_be_fetched_by_epoch(run_virtual, exchange):
    with pytest.raises(ValueError, match="fetch_newest"):
        run_virtual(exchange.fetch_model(1, 0, 1.0))


def test_pushes_of_two_lives_are_told_apart_though_a_clock_went_back(run_virtual, monkeypatch):
    names = []
    for _ in range(2):  # the same name and life, and none remembers what it sent before
        given = context({"b": [True]}, exchange="push-sum", push_probability=1.0, batch_size=64)
        monkeypatch.setattr(given.calls, "call", calling(TimedOut("late")))
        exchange = begun(given)
        train_once(run_virtual, exchange)
        names += [push.transfer for push in exchange.account.under_way]
    assert len(names) == len(set(names)) == 2
