"""Engines: work is done and timed, one that is slowed down rests, and what fails counts as work too."""

import asyncio
import threading
import time

import pytest

from paceline.learning.engines import Engine, ThreadEngine


class Modelled(Engine):
    """Takes a second for each operation."""

    async def _run(self, work, operations):
        await asyncio.sleep(operations)
        return work()


def test_the_time_at_work_is_counted_and_no_other(run_virtual):
    async def main():
        engine = Modelled()
        assert await engine.run(lambda: "done", 2.0) == "done"
        await asyncio.sleep(5)
        with pytest.raises(ZeroDivisionError):
            await engine.run(lambda: 1 / 0, 1.0)
        return engine.busy_seconds

    assert run_virtual(main()) == pytest.approx(3.0)


def test_a_thread_does_the_work_while_the_loop_goes_on():
    async def main():
        engine, started, may_end = ThreadEngine(), asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def work():
            loop.call_soon_threadsafe(started.set)
            assert may_end.wait(10)
            return 7

        running = asyncio.ensure_future(engine.run(work, 0))
        await started.wait()  # which the loop could not, were it at work itself
        may_end.set()
        assert await running == 7
        assert engine.busy_seconds > 0

    asyncio.run(main())


def test_one_that_is_slowed_down_rests_in_proportion_to_its_work():
    """By the processor's time, of which it cannot get more than the wall's."""

    async def main():
        engine, worked = ThreadEngine(slowdown=4.0), []

        def work():
            start = time.thread_time()
            sum(number * number for number in range(300_000))
            worked.append(time.thread_time() - start)

        await engine.run(work, 0)
        return engine.busy_seconds, worked[0]

    busy_seconds, worked_seconds = asyncio.run(main())
    assert busy_seconds >= 3.9 * worked_seconds > 0
