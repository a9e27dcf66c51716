"""Whose call begins next, when more come at once than can be dealt with in a moment."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

SLICE_SECONDS = 0.002
"""How long calls may begin one after the other before the event loop gets to do what else waits."""


class Turns:
    """Has calls begin in slices, between which the event loop reads, writes and keeps time.

    In a rush, functions take turns, and of one function whoever came first: a thousand calls of one do not hold up the
    only call of another. As long as there is no rush, calls begin at once.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # whose turn is next comes first
        self._until = 0.0  # loop time at which the slice is over
        self._is_followed = False  # whether the next slice is scheduled

    def take(self, function: str) -> asyncio.Future[None] | None:
        """Return what a call of a function waits for; None if it may begin, and run until it first waits by itself."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            now = loop.time()
            if now < self._until:
                return None
            if not self._is_followed:  # the loop may have been elsewhere since: that is not looked at for each call
                self._open(loop, now)
                return None
        turn = loop.create_future()
        self._waiting.setdefault(function, deque()).append(turn)
        return turn

    def _open(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        self._until = now + SLICE_SECONDS
        self._is_followed = True
        loop.call_soon(self._next_slice, loop)

    def _next_slice(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a slice with the call that is next, if any waits: what it takes is not known before."""
        self._is_followed = False
        while self._waiting:
            function, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[function] = turns
            if not turn.done():  # else its caller is gone
                self._open(loop, loop.time())
                turn.set_result(None)
                return
