"""Repeats attempts that failed to get through, with growing pauses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from paceline.errors import Busy, ConnectionLost, TimedOut, TlsFailed, TransportError, Unreachable

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0

_LEAST_ATTEMPTS = 10  # in the time that is there: with fewer, a link that loses one in three breaks some calls

T = TypeVar("T")


async def retry(
    attempt: Callable[[], Awaitable[T]],
    *,
    give_up_seconds: float,
    until: float = math.inf,
    on_first_failure: Callable[[TransportError], None] = lambda error: None,
) -> T:
    """Call until it gets through, or has failed for so long; then the last error is raised.

    Each pause is twice the last, up to a limit. Only for attempts that may be repeated; an answer that says no
    (`Refused`, `BadReply`) is final, and so is `TlsFailed`; one that says not now (`Busy`) is not.

    Args:
        until: loop time after which no attempt is begun.
        on_first_failure: receives the error when it begins to fail.
    """
    loop = asyncio.get_running_loop()
    longest_pause = min(LONGEST_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, give_up_seconds / _LEAST_ATTEMPTS))
    failing_since = None
    pause = FIRST_PAUSE_SECONDS
    while True:
        started = loop.time()
        try:
            return await attempt()
        except TlsFailed:
            raise
        except (Unreachable, TimedOut, ConnectionLost, Busy) as error:
            now = loop.time()
            was_up = isinstance(error, ConnectionLost) and now - started > LONGEST_PAUSE_SECONDS
            is_first = failing_since is None
            if failing_since is None or was_up:  # a long-poll that broke after a while was no failure until then
                failing_since, pause = now, FIRST_PAUSE_SECONDS
            if isinstance(error, Busy):
                pause = max(pause, error.retry_after_seconds)
            if now + pause - failing_since > give_up_seconds or now + pause >= until:
                raise
            if is_first:
                on_first_failure(error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest_pause)
