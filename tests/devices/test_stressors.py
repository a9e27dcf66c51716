"""Stressors keep a device busy between start and stop, and leave nothing behind."""

import asyncio
import threading

import numpy as np
import pytest

from paceline.devices.stressors import ComputeStressor, TransferStressor


def stressor_threads():
    return [thread for thread in threading.enumerate() if thread.name == "stressor"]


async def multiplied(stressor):
    """Return once it has done a product."""
    stressor._product.fill(np.nan)
    while np.isnan(stressor._product).any():
        await asyncio.sleep(0)


class Downloads:
    """Downloads that take a second each."""

    def __init__(self):
        self.num_begun = self.num_done = self.num_cancelled = 0

    async def fetch(self):
        self.num_begun += 1
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        self.num_done += 1


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_computing_takes_a_thread_and_its_time():
    async def main():
        stressor = ComputeStressor()
        stressor.start()
        stressor.start()
        [thread] = stressor_threads()
        await multiplied(stressor)
        await multiplied(stressor)
        assert thread.is_alive()
        stressor.stop()
        stressor.stop()
        await stressor.aclose()
        assert not thread.is_alive()

    asyncio.run(main())


def test_computing_ends_even_if_the_wait_for_it_is_cancelled():
    async def main():
        stressor = ComputeStressor()
        stressor.start()
        [thread] = stressor_threads()
        closing = asyncio.ensure_future(stressor.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        return thread

    thread = asyncio.run(main())
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_downloads_follow_each_other_until_stopped_and_can_be_started_again_at_once(run_virtual):
    async def main():
        downloads = Downloads()
        stressor = TransferStressor(downloads.fetch)
        stressor.start()
        stressor.start()
        await asyncio.sleep(10.5)
        assert (downloads.num_begun, downloads.num_done) == (11, 10)
        stressor.stop()
        stressor.stop()
        await asyncio.sleep(10)
        assert (downloads.num_begun, downloads.num_cancelled) == (11, 1)
        assert other_tasks() == set()
        for _ in range(3):
            stressor.start()
            await asyncio.sleep(0.5)
            stressor.stop()
        stressor.start()
        await asyncio.sleep(3.5)
        assert (downloads.num_cancelled, downloads.num_done) == (1 + 3, 10 + 3)
        await stressor.aclose()
        assert other_tasks() == set()

    run_virtual(main())


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("bad"), RuntimeError("other")])
def test_failed_downloads_are_tried_again_after_a_pause(run_virtual, error):
    tried_at = []

    async def fail():
        tried_at.append(asyncio.get_running_loop().time())
        raise error

    async def main():
        stressor = TransferStressor(fail)
        stressor.start()
        await asyncio.sleep(1.1)
        await stressor.aclose()
        return other_tasks()

    assert run_virtual(main()) == set()
    assert tried_at == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_a_download_that_takes_no_time_does_not_stop_the_loop(run_virtual):
    num_done = 0

    async def fetch():
        nonlocal num_done
        num_done += 1

    async def main():
        stressor = TransferStressor(fetch)
        stressor.start()
        for _ in range(10):
            await asyncio.sleep(0)
        await stressor.aclose()

    run_virtual(main())
    assert 5 <= num_done <= 10


def test_a_download_that_will_not_be_cancelled_is_the_last(run_virtual):
    num_begun = 0

    async def stubborn():
        nonlocal num_begun
        num_begun += 1
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(5)

    async def main():
        stressor = TransferStressor(stubborn)
        stressor.start()
        await asyncio.sleep(1)
        await stressor.aclose()
        return asyncio.get_running_loop().time(), other_tasks()

    assert run_virtual(main()) == (6, set())
    assert num_begun == 1
