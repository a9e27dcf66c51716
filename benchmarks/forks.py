"""Processes that are copies of this one: they start at once, since all imports are done."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

_context = multiprocessing.get_context("fork")
_barriers: list[Barrier] = []  # that processes find here when they are forked

_WAIT_SECONDS = 60.0


def gather(work: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
    """What came of `work`, done for each of the arguments at the same time, in a process each.

    The calling process must have no threads; run it by `lifeline`, which ends what it leaves behind.
    """
    num_processes = len(arguments[0])
    _barriers.append(_context.Barrier(num_processes))
    with ProcessPoolExecutor(num_processes, _context) as pool:
        return list(pool.map(work, *arguments))


def wait_for_all() -> None:
    """Block, in one of the processes, until all of them have come here."""
    _barriers[-1].wait(_WAIT_SECONDS)
