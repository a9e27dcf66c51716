"""Links between two hosts of an imagined network: both ends count."""

import asyncio

import pytest

from paceline import axon
from paceline.axon.transports import Link, MemoryNetwork
from paceline.axon.transports.links import Fault
from paceline.errors import ConnectionLost, Unreachable

NUM_BYTES = 1_000_000
FAST = Link(latency_seconds=0.5, up_bytes_per_second=1e6, down_bytes_per_second=1e6)


async def echo(data: bytes) -> bytes:
    return data


async def count():
    for _ in range(3):
        yield bytes(NUM_BYTES)


def between(run_virtual, caller, answerer, use):
    """What comes of using a remote on one host, that is served on another; and how long that took."""

    async def main():
        network = MemoryNetwork()
        near, far = network.host("near", caller), network.host("far", answerer)
        worker = axon.Worker("far")
        for function in (echo, count):
            worker.rpc()(function)
        async with worker.serving(transport=far, port=1, grace_seconds=0) as address:
            remote = axon.connect(str(address), transport=near)
            loop = asyncio.get_running_loop()
            await remote.echo.coro(b"")  # it asks once what there is
            start = loop.time()
            return await use(remote, near.link, far.link), loop.time() - start

    return run_virtual(main())


async def echo_once(remote, near, far):
    return len(await remote.echo.coro(bytes(NUM_BYTES)))


SLOW_UP = Link(up_bytes_per_second=1e5)
SLOW_DOWN = Link(down_bytes_per_second=2e5)


@pytest.mark.parametrize(
    ("caller", "answerer", "seconds"),
    [
        (Link(), Link(), 0.0),
        (FAST, Link(), 3.0),
        (Link(), FAST, 3.0),
        (FAST, FAST, 4.0),
        (FAST, SLOW_UP, 1.5 + 10.5),
        (SLOW_UP, FAST, 10.5 + 1.5),
        (SLOW_DOWN, SLOW_DOWN, 10.0),
        (SLOW_UP, SLOW_DOWN, 10.0),
    ],
)
def test_the_slower_end_counts_and_both_latencies(run_virtual, caller, answerer, seconds):
    length, took = between(run_virtual, caller, answerer, echo_once)
    assert length == NUM_BYTES
    assert took == pytest.approx(seconds, abs=0.01)


def test_callers_share_the_link_of_who_answers(run_virtual):
    async def use(remote, near, far):
        await asyncio.gather(*(remote.echo.coro(bytes(NUM_BYTES)) for _ in range(3)))

    _, took = between(run_virtual, Link(), SLOW_UP, use)
    assert took == pytest.approx(30.0, abs=0.01)


def test_streams_go_over_both_links_too(run_virtual):
    async def use(remote, near, far):
        return [len(data) async for data in await remote.count.coro()]

    lengths, took = between(run_virtual, Link(), SLOW_UP, use)
    assert lengths == [NUM_BYTES] * 3
    assert took == pytest.approx(30.0, abs=0.02)


@pytest.mark.parametrize("end", [0, 1], ids=["near", "far"])
@pytest.mark.parametrize("after_seconds", [5.0, 15.0], ids=["there", "back"])
def test_cutting_either_end_breaks_what_is_under_way(run_virtual, end, after_seconds):
    async def use(remote, *lines):
        asyncio.get_running_loop().call_later(after_seconds, lines[end].cut)
        with pytest.raises(ConnectionLost, match="was cut"):
            await remote.echo.coro(bytes(NUM_BYTES))

    _, took = between(run_virtual, SLOW_UP, SLOW_UP, use)
    assert took == pytest.approx(after_seconds)


@pytest.mark.parametrize("end", [0, 1], ids=["near", "far"])
def test_a_stream_is_broken_off_at_either_end(run_virtual, end):
    async def use(remote, *lines):
        asyncio.get_running_loop().call_later(15.0, lines[end].cut)
        with pytest.raises(ConnectionLost):
            async for _ in await remote.count.coro():
                pass

    _, took = between(run_virtual, Link(), SLOW_UP, use)
    assert took == pytest.approx(15.0)


@pytest.mark.parametrize("end", [0, 1], ids=["near", "far"])
def test_nobody_is_reached_over_a_cut_link_until_it_is_mended(run_virtual, end):
    async def use(remote, *lines):
        lines[end].cut()
        with pytest.raises(Unreachable, match="the link is cut"):
            await remote.echo.coro(b"")
        lines[end].mend()
        return await remote.echo.coro(b"again")

    assert between(run_virtual, Link(), Link(), use)[0] == b"again"


def fated(run_virtual, fate):
    """Numbers as they come to the far side, each sent a second after the last, the first of them with this fate."""
    seen = []

    async def see(number: int) -> None:
        seen.append(number)

    async def main():
        network = MemoryNetwork()
        near, far = network.host("near"), network.host("far")
        worker = axon.Worker("far")
        worker.rpc()(see)
        async with worker.serving(transport=far, port=1, grace_seconds=0) as address:
            remote = axon.connect(str(address), transport=near)
            await remote.see.coro(0)
            fates = [fate]
            near.link.fate = lambda request: fates.pop() if fates else Fault.NONE
            calls = []
            for number in (1, 2, 3):
                calls.append(asyncio.ensure_future(remote.see.coro(number)))
                await asyncio.sleep(0.01)
            await asyncio.gather(*calls)
            await asyncio.sleep(10)
        return seen

    return run_virtual(main())


def test_a_request_that_is_repeated_comes_twice(run_virtual):
    assert sorted(fated(run_virtual, Fault.REPEAT)) == [0, 1, 1, 2, 3]


def test_a_request_that_is_delayed_is_overtaken(run_virtual):
    assert fated(run_virtual, Fault.DELAY) == [0, 2, 3, 1]
