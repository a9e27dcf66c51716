"""Blocking calls from every place a program may make them: threads, forks, signals, running loops."""

import asyncio
import gc
import os
import signal
import threading
import weakref

import pytest

from paceline import axon


@pytest.fixture
def remote(worker, serve):
    @worker.rpc()
    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "rested"

    @worker.rpc()
    def count(n: int):
        yield from range(n)

    return serve()


def test_from_many_threads_that_end(remote):
    results = []

    def call():
        results.append((remote.nap(0.01), list(remote.count(3))))

    for _ in range(3):
        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [("rested", [0, 1, 2])] * 24
    gc.collect()  # a thread's loop goes with the thread; a leak would warn, and warnings are errors
    assert len(axon.loops._thread_loops) <= 2


def test_from_a_thread_with_a_running_loop(remote):
    async def main():
        return remote.nap(0.01)

    assert asyncio.run(main()) == "rested"


def test_stream_that_moves_to_another_thread(remote):
    stream = remote.count(4)
    assert next(stream) == 0
    rest = []
    thread = threading.Thread(target=lambda: rest.extend(stream))
    thread.start()
    thread.join()
    assert rest == [1, 2, 3]


@pytest.fixture
def heeded_interrupts():
    """Interrupts do what they do in a terminal, also where tests run in the background and they are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
def test_interrupt_cancels_the_call(remote):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        remote.nap(60.0)
    timer.join()
    assert remote.nap(0.0) == "rested"


def test_forked_process_has_connections_of_its_own(spawn):
    script = """\
import os, sys
from paceline import axon

worker = axon.Worker()
worker.rpc(name="pid", executor="loop")(os.getpid)
with worker.serve(port=0) as address:
    remote = axon.connect(str(address))
    mine = remote.pid()
    child = os.fork()
    if not child:
        os._exit(0 if remote.pid() == mine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert remote.pid() == mine
print("done")
"""
    process = spawn(script)
    assert process.communicate(timeout=30)[0] == "done\n"


def test_loops_that_ended_are_let_go(remote):
    async def main():
        await remote.nap.coro(0.0)
        await remote.nap.options(duplex=True).coro(0.0)
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(main()) for _ in range(3)]
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


def test_within_does_not_swallow_a_cancellation():
    async def main():
        for steps in range(1, 8):
            task = asyncio.ensure_future(axon.loops.within(5, asyncio.sleep(0)))
            for _ in range(steps):
                await asyncio.sleep(0)
            was_done = task.done()
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled() or was_done

    asyncio.run(main())
