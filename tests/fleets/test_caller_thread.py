"""Blocking calls inside a running event loop: in another thread, with callbacks in this one, and interruptible."""

import asyncio
import os
import signal
import threading
import time

import pytest

from paceline.fleets.caller_thread import call_in_caller, on_interrupt, run_outside_loop


def inside_loop(function):
    """Call a function on a thread that runs an event loop."""

    async def main():
        return run_outside_loop(function)

    return asyncio.run(main())


def test_without_a_running_loop_all_is_called_at_once():
    with on_interrupt(pytest.fail):
        assert run_outside_loop(threading.current_thread) is threading.current_thread()
        assert call_in_caller(threading.current_thread) is threading.current_thread()


def test_a_loop_of_its_own_can_run_and_callbacks_come_back():
    async def own():
        return call_in_caller(threading.current_thread), threading.current_thread()

    called_in, ran_in = inside_loop(lambda: asyncio.run(own()))
    assert called_in is threading.current_thread() is not ran_in


def test_what_is_raised_comes_through_in_both_directions():
    def fail():
        raise LookupError("x")

    def work():
        with pytest.raises(LookupError):
            call_in_caller(fail)
        raise OSError("y")

    with pytest.raises(OSError, match="y"):
        inside_loop(work)


@pytest.mark.parametrize("is_early", [False, True])
def test_an_interrupt_is_passed_on_once_and_the_call_ends_what_it_started(is_early):
    is_interrupted, log = threading.Event(), []

    def work():
        if is_early:
            interrupt_main()
            time.sleep(0.2)
        with on_interrupt(is_interrupted.set):
            if not is_early:
                interrupt_main()
            assert is_interrupted.wait(10)
        interrupt_main()  # a second one does nothing
        time.sleep(0.2)
        call_in_caller(lambda: log.append("called"))  # nor is anything of the user's called then
        log.append("ended")

    with pytest.raises(KeyboardInterrupt):
        inside_loop(work)
    assert log == ["ended"]


def test_an_interrupt_of_a_callback_is_passed_on():
    is_interrupted = threading.Event()

    def interrupted():
        raise KeyboardInterrupt

    def work():
        with on_interrupt(is_interrupted.set):
            call_in_caller(interrupted)
            assert is_interrupted.wait(10)

    with pytest.raises(KeyboardInterrupt):
        inside_loop(work)


def interrupt_main():
    os.kill(os.getpid(), signal.SIGINT)
