"""Calling many workers at once: the same or different arguments, results and failures per device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from paceline.axon import loops
from paceline.axon.client.blocking import for_threads
from paceline.errors import ConfigError, TimedOut

_CANCEL_SECONDS = 0.2  # for late calls to let their workers know


class BoundCall(NamedTuple):
    """A function of a worker with its arguments, to be called later or with others."""

    url: str  # of the worker
    start: Callable[..., Coroutine[Any, Any, Any]]  # makes the call; takes an id for it


@dataclass
class Outcomes:
    """Results and failures of a fan-out; each device is in exactly one of the two."""

    results: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)


async def fan_out_coro(calls: Mapping[str, BoundCall], *, deadline_seconds: float) -> Outcomes:
    """Make all calls at once and wait for them, at most until the deadline.

    Args:
        calls: calls by device, made with `bind`: ``{"pi1": pi1.train.bind(3), "pi2": pi2.train.bind(5)}``.
        deadline_seconds: calls that have not ended by then are cancelled and count as `TimedOut`.
    """
    if not deadline_seconds > 0:
        raise ConfigError(f"deadline_seconds is {deadline_seconds}; it must be above 0")
    tasks = {device: asyncio.ensure_future(call.start()) for device, call in calls.items()}
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=deadline_seconds)
    finally:
        late = {device for device, task in tasks.items() if not task.done()}
        for device in late:
            tasks[device].cancel()
    if late:
        await asyncio.wait([tasks[device] for device in late], timeout=_CANCEL_SECONDS)
    outcomes = Outcomes()
    for device, task in tasks.items():
        if device in late:
            task.add_done_callback(_ignore)
            url = calls[device].url
            outcomes.failures[device] = TimedOut(f"{device} at {url} did not end within {deadline_seconds:g} s")
        elif isinstance(error := task.exception(), Exception):
            outcomes.failures[device] = error
        else:
            outcomes.results[device] = task.result()
    return outcomes


def _ignore(task: asyncio.Future[Any]) -> None:
    """Look at how a late call ended, so that asyncio does not report that nobody did."""
    if not task.cancelled():
        task.exception()


def fan_out(calls: Mapping[str, BoundCall], *, deadline_seconds: float) -> Outcomes:
    """Do what `fan_out_coro` does, for blocking code."""
    outcomes = loops.background.run(fan_out_coro(calls, deadline_seconds=deadline_seconds))
    outcomes.results = {device: for_threads(result, loops.background) for device, result in outcomes.results.items()}
    return outcomes
