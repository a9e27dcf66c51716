"""Saves what was learned on disks that refuse it for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from paceline.errors import DiskError

T = TypeVar("T")

SAVING_SECONDS = 60.0
"""Longest that saving is tried before the run ends: a full disk may have room again."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0  # between two tries


async def until_saved(
    save: Callable[[], Awaitable[T]], on_first_failure: Callable[[DiskError], None] = lambda error: None
) -> T:
    """Save, and try again for a while if that fails; raises the last `DiskError`."""
    loop = asyncio.get_running_loop()
    give_up_at, pause = None, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await save()
        except DiskError as error:
            if give_up_at is None:
                give_up_at = loop.time() + SAVING_SECONDS
                on_first_failure(error)
            if loop.time() >= give_up_at:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
