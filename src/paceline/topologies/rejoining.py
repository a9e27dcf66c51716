"""Taking part in a run until it is over, and joining again whenever the connection is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from paceline.axon.retry import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from paceline.errors import BadReply, Refused, RemoteError, TransportError

_FINAL_STATUS = (401, 404, 422)  # a wrong token, or nobody who runs a job: trying again would not help


async def until_over(
    join: Callable[[], Awaitable[None]], take_part: Callable[[], Awaitable[str]], patience_seconds: float
) -> str:
    """Join and take part, again and again until the run is over; returns the reason.

    Raises the last `TransportError` when nobody could be reached for so long, or what would not go away, at once. A
    `RemoteError` is raised, too, unless it tells that the session is not known any more.
    """
    loop = asyncio.get_running_loop()
    pause, failing_since = FIRST_PAUSE_SECONDS, None
    while True:
        try:
            await join()
            failing_since, pause = None, FIRST_PAUSE_SECONDS
            return await take_part()
        except RemoteError as error:
            if error.type_name != "LookupError":
                raise
        except TransportError as error:
            if isinstance(error, BadReply) or (isinstance(error, Refused) and error.status in _FINAL_STATUS):
                raise
            failing_since = loop.time() if failing_since is None else failing_since
            if loop.time() + pause - failing_since > patience_seconds:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
