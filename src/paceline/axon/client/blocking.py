"""Calls for code that blocks: wait for a result, iterate over a stream."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from paceline.axon import loops
from paceline.axon.client.caller import Caller, ValueStream
from paceline.axon.loops import Runner


class ThreadStream:
    """The items of a generator rpc, for ``for``; closing it early stops the far generator."""

    def __init__(self, stream: ValueStream, runner: Runner) -> None:
        self._stream = stream
        self._runner = runner

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        is_item, item = self._runner.run(self._stream.take())
        if not is_item:
            raise StopIteration
        return item

    def close(self) -> None:
        """Stop: the far generator is closed."""
        self._runner.run(self._stream.aclose())

    def __enter__(self) -> ThreadStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call_and_wait(caller: Caller, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a call of this caller's and wait for its result; a stream comes as an ordinary iterator."""
    runner: Runner = loops.background
    if caller.may_pause:
        runner = loops.ThreadLoop.of_this_thread() or runner
    return for_threads(runner.run(coroutine), runner)


def for_threads(result: Any, runner: Runner) -> Any:
    """Turn a result into one for blocking code: a stream of that runner's loop becomes an ordinary iterator."""
    return ThreadStream(result, runner) if isinstance(result, ValueStream) else result
