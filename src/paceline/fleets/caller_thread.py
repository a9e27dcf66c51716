"""Blocking calls that run an event loop of their own, where one is running already, as in a notebook.

A thread can run one event loop at a time. So the call runs in another thread, while this one waits for it, and does
what that hands back: calls of the user's functions, which may draw or print into the cell. An interrupt of the one
that waits is passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_here = threading.local()


def run_outside_loop(function: Callable[[], T]) -> T:
    """Call a function that runs an event loop; returns what it does, and raises what it raises.

    An interrupt calls what was set by `on_interrupt`; `KeyboardInterrupt` is raised once the function has ended.
    """
    return _Call(function).result() if asyncio._get_running_loop() is not None else function()


def call_in_caller(function: Callable[[], T]) -> T:
    """Call a function in the thread that called `run_outside_loop`, and wait for it; else, at once."""
    call: _Call[Any] | None = getattr(_here, "call", None)
    return function() if call is None else call.hand_over(function)


@contextlib.contextmanager
def on_interrupt(function: Callable[[], object]) -> Iterator[None]:
    """Have a function called, from another thread, if the thread that waits for this one is interrupted."""
    call: _Call[Any] | None = getattr(_here, "call", None)
    if call is None:
        yield
        return
    call.interrupt = function
    if call.is_interrupted:
        function()
    try:
        yield
    finally:
        call.interrupt = lambda: None


class _Call(Generic[T]):
    """A call in a thread of its own, and the functions that it hands to the thread that waits.

    Attributes:
        interrupt: passes an interrupt on to the call.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self.interrupt: Callable[[], object] = lambda: None
        self.is_interrupted = False
        self._function = function
        self._result: Future[T] = Future()
        self._handed: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._is_in_function = False

    def result(self) -> T:
        context = contextvars.copy_context()  # by which a notebook knows the cell that output belongs to
        thread = threading.Thread(target=context.run, args=(self._run,), name="paceline-run", daemon=True)
        with self._handling_interrupts():
            thread.start()
            while (handed := self._handed.get()) is not None:
                self._do(*handed)
            thread.join()
        if self.is_interrupted:
            raise KeyboardInterrupt
        return self._result.result()

    def hand_over(self, function: Callable[[], Any]) -> Any:
        done: Future[Any] = Future()
        self._handed.put((function, done))
        return done.result()

    def _run(self) -> None:
        _here.call = self
        try:
            self._result.set_result(self._function())
        except BaseException as error:
            self._result.set_exception(error)
        finally:
            self._handed.put(None)

    def _do(self, function: Callable[[], Any], done: Future[Any]) -> None:
        if self.is_interrupted:
            done.set_result(None)  # the user wants no more of it
            return
        self._is_in_function = True
        try:
            done.set_result(function())
        except KeyboardInterrupt:
            self._interrupt_once()
            if not done.done():
                done.set_result(None)
        except BaseException as error:
            done.set_exception(error)
        finally:
            self._is_in_function = False

    @contextlib.contextmanager
    def _handling_interrupts(self) -> Iterator[None]:
        """Pass SIGINT on, which the running loop might keep until it is back in control."""

        def handle(*_: object) -> None:
            self._interrupt_once()
            if self._is_in_function:
                raise KeyboardInterrupt

        if threading.current_thread() is not threading.main_thread():
            yield  # interrupts are for another one
            return
        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt_once(self) -> None:
        """Pass an interrupt on; further ones must not keep the call from ending what it started."""
        if not self.is_interrupted:
            self.is_interrupted = True
            self.interrupt()
