"""A rush of calls: each begins in its turn, and the loop is not held by all of them at once."""

import asyncio
import itertools

import pytest

from paceline import axon
from paceline.axon.transports import MemoryNetwork
from paceline.axon.worker.turns import SLICE_SECONDS, Turns

WORK_SECONDS = 0.001
NUM_CALLS = 200


@pytest.fixture
def begun():
    """Names of the calls that began, and when."""
    return []


@pytest.fixture
def call(begun):
    """Take a turn, and compute for a while, in which nothing else can happen."""

    async def call(turns, function, seconds=WORK_SECONDS):
        turn = turns.take(function)
        if turn is not None:
            await turn
        loop = asyncio.get_running_loop()
        begun.append((function, loop.time()))
        loop.jump(seconds)

    return call


def test_a_rush_leaves_the_loop_time_for_others(run_virtual, begun, call):
    async def main():
        turns, loop, beats = Turns(), asyncio.get_running_loop(), []
        calls = [asyncio.ensure_future(call(turns, "take")) for _ in range(NUM_CALLS)]
        while len(begun) < NUM_CALLS:
            await asyncio.sleep(0)
            beats.append(loop.time())
        await asyncio.gather(*calls)
        return max(after - before for before, after in itertools.pairwise(beats))

    assert run_virtual(main()) <= 2 * SLICE_SECONDS + WORK_SECONDS
    assert len(begun) == NUM_CALLS


def test_functions_take_turns_and_calls_of_one_keep_their_order(run_virtual, begun, call):
    async def main():
        turns = Turns()
        rush = [call(turns, "take", WORK_SECONDS + n / 1e9) for n in range(NUM_CALLS)]
        await asyncio.gather(*rush, *(call(turns, name) for name in ("update", "take", "describe")))

    run_virtual(main())
    order = [name for name, _ in begun]
    assert order.index("describe") < 10
    assert order.index("update") < 10
    assert len(order) == NUM_CALLS + 3


def test_calls_begin_at_once_while_there_is_no_rush(run_virtual, begun, call):
    async def main():
        turns = Turns()
        for _ in range(3):
            coroutine = call(turns, "take", SLICE_SECONDS / 10)
            with pytest.raises(StopIteration):
                coroutine.send(None)

    run_virtual(main())
    assert len(begun) == 3


def test_a_caller_that_is_gone_costs_no_turn(run_virtual, begun, call):
    async def main():
        turns = Turns()
        calls = [asyncio.ensure_future(call(turns, "take")) for _ in range(NUM_CALLS)]
        await asyncio.sleep(0)
        waiting = calls[len(begun) :]
        for one in waiting[:-1]:
            one.cancel()
        await waiting[-1]
        assert len(begun) == NUM_CALLS - len(waiting) + 1
        await asyncio.gather(*calls, return_exceptions=True)

    run_virtual(main())


def test_a_small_call_is_answered_during_a_rush_of_large_ones(run_virtual):
    async def train(number: int) -> int:
        asyncio.get_running_loop().jump(WORK_SECONDS)
        return number

    async def describe() -> str:
        return "host"

    async def main():
        network, worker, loop = MemoryNetwork(), axon.Worker("host"), asyncio.get_running_loop()
        worker.rpc()(train)
        worker.rpc()(describe)
        async with worker.serving(port=7223, transport=network.host("host")):
            host = axon.connect("http://host:7223", transport=network.host("pi"))
            rush = [asyncio.ensure_future(host.train.coro(number)) for number in range(NUM_CALLS)]
            assert await host.describe.coro() == "host"
            seconds = loop.time()
            assert await asyncio.gather(*rush) == list(range(NUM_CALLS))
        assert seconds < NUM_CALLS * WORK_SECONDS / 4

    run_virtual(main())
