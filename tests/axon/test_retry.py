"""Calls that are attempted again: all attempts within one deadline, and a function that may run once runs once."""

import asyncio
import itertools

import pytest

from paceline import axon
from paceline.axon.messages import Reply
from paceline.axon.retry import retry
from paceline.axon.transports import FaultyTransport, Link, MemoryNetwork
from paceline.axon.transports.links import Fault
from paceline.axon.worker.given import MAX_KEPT_BYTES, MAX_REPLIES, MAX_REPLY_BYTES, GivenReplies
from paceline.errors import BadReply, Busy, ConnectionLost, Refused, TimedOut, TlsFailed, TransportError, Unreachable


def serve(network, function):
    worker = axon.Worker("far")
    worker.rpc(name="work")(function)
    return worker.serving(transport=network.host("far"), port=7223, grace_seconds=0)


def remote(network, fates=(), **options):
    """A remote that loses its first exchanges by these fates."""
    left = list(fates)

    def fate(request):
        is_call = request.path == "/rpc/work"
        return left.pop(0) if is_call and left else Fault.NONE

    transport = FaultyTransport(network.host("near"), plan=fate)
    return axon.connect("http://far:7223", transport=transport, **options)


LOST = [Fault.LOSE_REQUEST, Fault.LOSE_REPLY] * 3


@pytest.mark.parametrize(("once", "num_runs"), [(True, 1), (False, 4)])
def test_a_call_is_attempted_until_it_gets_through_and_runs_once_if_it_is_to(run_virtual, once, num_runs):
    runs = []

    async def work() -> int:
        runs.append(1)
        return len(runs)

    async def main():
        network = MemoryNetwork()
        async with serve(network, work):
            return await remote(network, LOST, retry_seconds=3.0, once=once).work.coro()

    assert run_virtual(main()) == num_runs == len(runs)


def test_without_further_attempts_a_lost_call_is_lost(run_virtual):
    async def work() -> int:
        return 1

    async def main():
        network = MemoryNetwork()
        async with serve(network, work):
            with pytest.raises(ConnectionLost):
                await remote(network, LOST).work.coro()

    run_virtual(main())


def test_what_the_function_raised_is_raised_again_and_not_tried_again(run_virtual):
    runs = []

    async def work() -> int:
        runs.append(1)
        raise ValueError("no")

    async def main():
        network = MemoryNetwork()
        async with serve(network, work):
            with pytest.raises(axon.RemoteError, match="no"):
                await remote(network, LOST, retry_seconds=3.0, once=True).work.coro()

    run_virtual(main())
    assert runs == [1]


@pytest.mark.parametrize("is_there", [True, False], ids=["silent", "unreachable"])
def test_all_attempts_end_by_one_deadline(run_virtual, is_there):
    async def work() -> int:
        await asyncio.sleep(1000)
        return 1

    async def main():
        network, loop = MemoryNetwork(), asyncio.get_running_loop()
        async with serve(network, work):
            far = remote(network, timeout_seconds=5.0, retry_seconds=5.0)
            if is_there:
                with pytest.raises(TimedOut):
                    await far.work.coro()
            else:
                far = axon.connect(
                    "http://nobody:1", transport=network.host("other"), timeout_seconds=5.0, retry_seconds=5.0
                )
                with pytest.raises(Unreachable):
                    await far.work.coro()
            return loop.time()

    assert 4.0 < run_virtual(main()) <= 5.0


def test_a_call_that_was_stopped_halfway_may_run_again(run_virtual):
    runs = []

    async def work() -> int:
        runs.append(1)
        if len(runs) == 1:
            await asyncio.sleep(1000)
        return len(runs)

    async def main():
        network = MemoryNetwork()
        transport = FaultyTransport(network.host("near"), Link())
        far = axon.connect("http://far:7223", transport=transport, retry_seconds=3.0, once=True)
        async with serve(network, work):
            call = asyncio.ensure_future(far.work.coro())
            await asyncio.sleep(1)
            transport.cut()
            transport.mend()
            return await call

    assert run_virtual(main()) == 2


@pytest.mark.parametrize("loss", [0.2, 0.3])
def test_a_link_that_loses_one_in_three_breaks_no_call_within_its_patience(run_virtual, loss):
    async def work() -> int:
        return 1

    async def main():
        network = MemoryNetwork()
        async with serve(network, work):
            transport = FaultyTransport(network.host("near"), Link(loss=loss, seed=1))
            far = axon.connect("http://far:7223", transport=transport, timeout_seconds=5.0, retry_seconds=5.0)
            return sum([await far.work.coro() for _ in range(5000)])

    assert run_virtual(main()) == 5000


def test_attempts_grow_apart_but_there_are_ten_at_least(run_virtual):
    at = []

    async def attempt():
        at.append(asyncio.get_running_loop().time())
        raise ConnectionLost("lost")

    async def main(seconds):
        at.clear()
        with pytest.raises(TransportError):
            await retry(attempt, give_up_seconds=seconds)
        return [after - before for before, after in itertools.pairwise(at)]

    for seconds in (1.0, 5.0, 300.0):
        pauses = run_virtual(main(seconds))
        assert len(pauses) >= 10
        assert pauses[0] == pytest.approx(0.05)
        assert max(pauses) <= max(0.05, min(5.0, seconds / 10)) + 1e-6
        assert sum(pauses) <= seconds


def test_replies_that_are_kept_are_bounded():
    given = GivenReplies()
    assert given.note("long")
    given.keep("long", Reply(200, {}, [bytes(MAX_REPLY_BYTES + 1)]))
    assert not given.note("long")
    assert given.again("long") is None
    for number in range(3 * MAX_REPLIES):
        assert given.note(f"{number}")
        given.keep(f"{number}", Reply(200, {}, [bytes(MAX_REPLY_BYTES)]))
    assert given._num_bytes <= MAX_KEPT_BYTES
    assert len(given._replies) <= MAX_REPLIES
    assert given.again(f"{3 * MAX_REPLIES - 1}").content == bytes(MAX_REPLY_BYTES)
    assert given.again("0") is None


@pytest.fixture
def attempt(run_virtual):
    """Fail in these ways, then succeed; returns what comes of it, the number of attempts and the seconds."""

    def attempt(*failures, give_up_seconds=30.0):
        left, count = list(failures), 0

        async def once():
            nonlocal count
            count += 1
            if left:
                raise left.pop(0)
            return "answer"

        async def main():
            loop = asyncio.get_running_loop()
            started = loop.time()
            try:
                found = await retry(once, give_up_seconds=give_up_seconds)
            except Exception as error:
                found = error
            return found, count, loop.time() - started

        return run_virtual(main())

    return attempt


@pytest.mark.parametrize("error", [Unreachable("nobody"), TimedOut("late"), ConnectionLost("cut")])
def test_what_did_not_get_through_is_tried_again(attempt, error):
    assert attempt(error, error) == ("answer", 3, pytest.approx(0.05 + 0.1))
    assert attempt(*[error] * 99)[0] is error


@pytest.mark.parametrize("error", [TlsFailed("other"), Refused("no", status=401), BadReply("gibberish")])
def test_a_no_is_final(attempt, error):
    assert attempt(error) == (error, 1, 0.0)


def test_not_now_is_tried_again_later(attempt):
    busy = Busy("full", status=503, retry_after_seconds=4.0)
    assert attempt(busy, busy) == ("answer", 3, pytest.approx(4.0 + 4.0))
    assert attempt(*[busy] * 99, give_up_seconds=3.0) == (busy, 1, 0.0)
