"""Fleets in real time: the orchestrator runs here, over HTTP; learners are other processes."""

from __future__ import annotations

import asyncio
import signal
import threading
from abc import abstractmethod
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from paceline.axon import ServerIdentity, loops, trust
from paceline.axon.transports import Address
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.fleets.base import C, Fleet, Launch
from paceline.topologies.parallel import Conductor, Surroundings, hosted

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where learners come in.

    Attributes:
        host: the address to listen on; one that other machines can reach needs a token.
        port: 0 picks a free one.
        token: what learners must show.
        identity: a certificate, for TLS.
        insecure: allow other machines in without a token.
    """

    host: str = trust.LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    identity: ServerIdentity | None = None
    insecure: bool = False


class LiveFleet(Fleet):
    """Base of the fleets in real time."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def run(self, launch: Launch[C]) -> C:
        return run_live(self.play(launch))

    @abstractmethod
    def devices(
        self, orchestrator: Conductor, launch: Launch[Any], address: Address
    ) -> AbstractAsyncContextManager[asyncio.Future[None]]:
        """Have learners join while the block runs; the future fails if too few are left to go on."""

    async def play(self, launch: Launch[C]) -> C:
        """Play all rounds, on the running loop."""
        orchestrator = launch.orchestrator(Surroundings())
        door = {name: getattr(self._door, name) for name in self._door.__dataclass_fields__}
        async with (
            hosted(orchestrator, launch.max_model_bytes, **door) as address,
            self.devices(orchestrator, launch, address) as trouble,
        ):
            await _unless(trouble, orchestrator.run())
            await orchestrator.farewell()
        return orchestrator


async def _unless(trouble: asyncio.Future[None], main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, unless trouble comes first; then that is raised."""
    running = asyncio.ensure_future(main)
    try:
        await asyncio.wait((running, trouble), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            trouble.result()
        return await running
    finally:
        running.cancel()
        await asyncio.wait((running,))


def run_live(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own; SIGINT and SIGTERM cancel it, and are told as `KeyboardInterrupt`.

    It is cancelled once: further signals must not keep it from ending what it started.
    """
    loop = loops.new_event_loop()
    task = loop.create_task(main)
    is_interrupted = False

    def interrupt() -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            task.cancel()

    is_main_thread = threading.current_thread() is threading.main_thread()
    try:
        if is_main_thread:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, interrupt)
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        loops.shut_down(loop)
