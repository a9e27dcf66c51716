"""A loop on virtual time: the clock jumps, the order is that of asyncio, and nothing is left behind."""

import asyncio
import math
import threading

import pytest

from paceline.fleets.virtual_loop import Stalled, VirtualLoop, run


async def now():
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("seconds", [1e-6, 3600.0, 3.2e8])
def test_the_clock_starts_at_zero_and_stands_still_until_it_jumps_to_the_next_timer(seconds):
    async def main():
        for _ in range(1000):
            await asyncio.sleep(0)
        assert await now() == 0
        await asyncio.sleep(seconds)
        return await now()

    assert run(main()) == pytest.approx(seconds, rel=1e-12)


def test_sleepers_wake_in_the_order_of_their_times():
    async def main():
        woken = []

        async def sleeper(seconds):
            await asyncio.sleep(seconds)
            woken.append((seconds, await now()))

        await asyncio.gather(*map(sleeper, (5, 1, 86_400 * 3, 2.5, 0)))
        return woken

    assert run(main()) == [(seconds, seconds) for seconds in (0, 1, 2.5, 5, 86_400 * 3)]


def test_a_timer_that_is_cancelled_does_not_move_the_clock():
    async def main():
        asyncio.get_running_loop().call_later(1000, print).cancel()
        sleeper = asyncio.ensure_future(asyncio.sleep(500))
        await asyncio.sleep(1)
        sleeper.cancel()
        await asyncio.sleep(1)
        return await now()

    assert run(main()) == 2


def test_the_same_program_gives_the_same_run():
    async def main():
        told, queue = [], asyncio.Queue(maxsize=2)

        async def produce(number):
            for step in range(5):
                await asyncio.sleep((number * 7 + step * 3) % 4)
                await queue.put((number, step))

        async def consume():
            while True:
                told.append((await queue.get(), await now()))
                await asyncio.sleep(0.5)

        consumer = asyncio.ensure_future(consume())
        await asyncio.gather(*map(produce, range(6)))
        await asyncio.sleep(100)
        consumer.cancel()
        return told

    first = run(main())
    assert len(first) == 30
    assert all(run(main()) == first for _ in range(3))


def test_time_limits_count_virtual_seconds():
    async def main():
        assert await asyncio.wait_for(asyncio.sleep(5, "done"), 11) == "done"
        assert await asyncio.wait_for(asyncio.sleep(5, "done"), math.inf) == "done"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 9)
        done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(s)) for s in (1, 5)], timeout=2)
        assert (len(done), len(pending)) == (1, 1)
        return await now()

    assert run(main()) == 10 + 9 + 2


@pytest.mark.parametrize("wait", [lambda: asyncio.Event().wait(), lambda: asyncio.sleep(math.inf)])
def test_waiting_for_nothing_is_an_error(wait):
    async def main():
        await asyncio.sleep(5)
        await wait()

    with pytest.raises(Stalled, match="all tasks wait"):
        run(main())


def test_a_stall_lets_everybody_clean_up():
    cleaned = []

    async def wait(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            cleaned.append(name)

    async def main():
        task = asyncio.ensure_future(wait("task"))
        await wait("main")
        await task

    with pytest.raises(Stalled):
        run(main())
    assert sorted(cleaned) == ["main", "task"]


@pytest.mark.parametrize("error", [None, ValueError("on purpose")])
def test_tasks_that_are_left_are_cancelled_and_generators_closed(error, caplog):
    cleaned, kept = [], []

    async def forever():
        try:
            await asyncio.sleep(1e9)
        finally:
            cleaned.append("task")

    async def numbers():
        try:
            yield 1
        finally:
            cleaned.append("generator")

    async def stubborn():
        try:
            await asyncio.sleep(1e9)
        finally:
            raise RuntimeError("in the end")

    async def main():
        kept.extend(map(asyncio.ensure_future, (forever(), stubborn())))
        kept.append(numbers())
        await anext(kept[-1])
        await asyncio.sleep(1)
        if error:
            raise error
        return "result"

    if error:
        with pytest.raises(ValueError, match="on purpose"):
            run(main())
    else:
        assert run(main()) == "result"
    assert cleaned == ["task", "generator"]
    assert caplog.records == []


def test_other_threads_are_refused_but_not_its_own():
    async def main():
        with pytest.raises(RuntimeError, match="no threads; do the work in place"):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError, match="no threads"):
            await asyncio.get_running_loop().run_in_executor(None, print)
        loop, called, caught = asyncio.get_running_loop(), asyncio.Event(), []
        loop.call_soon_threadsafe(called.set)
        await called.wait()

        def call():
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                caught.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return caught

    assert run(main()) == ["a loop on virtual time cannot be called from another thread"]


def test_each_run_has_a_loop_of_its_own():
    async def main():
        await asyncio.sleep(3)
        return asyncio.get_running_loop()

    first, second = run(main()), run(main())
    assert first is not second
    assert first.is_closed()
    assert isinstance(first, VirtualLoop)


def test_time_that_is_jumped_over_is_gone_for_all():
    async def main():
        loop, woken = asyncio.get_running_loop(), []
        for seconds in (1, 2, 30):
            loop.call_later(seconds, lambda seconds=seconds: woken.append((seconds, loop.time())))
        await asyncio.sleep(0.5)
        loop.jump(10)
        await asyncio.sleep(30)
        return woken

    assert run(main()) == [(1, 10.5), (2, 10.5), (30, 30)]
