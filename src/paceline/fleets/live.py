"""Fleets in real time: the host runs here, members are other processes, and all talk over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from paceline.axon import ServerIdentity, access, loops
from paceline.axon.transports.base import DEFAULT_PORT, Site
from paceline.devices.machines import LiveMachine, Machine
from paceline.fleets.base import HOST, Fleet
from paceline.fleets.caller_thread import on_interrupt
from paceline.topologies.access import HostAccess
from paceline.topologies.base import Environment, Host, Outcome, Plan, serving

T = TypeVar("T")

TERMINATION_SECONDS = 60.0
"""Longest that a process goes on after SIGTERM, to finish what is open."""

_OF_HOSTS = ("submit_token", "admin_token", "is_invite_only", "make_sites")  # what members that listen do not have


@dataclass(frozen=True, kw_only=True)
class ListenOptions:
    """Address to listen on, and how callers are authenticated.

    Attributes:
        host: address to listen on; one that other machines can reach needs a token.
        port: port to listen on; 0 picks a free one.
        token: token that devices must send, to join and to see how far a run is.
        submit_token: token that lets its owner submit jobs to a pool, and see how far they are.
        admin_token: token that lets its owner do all that, invite others and revoke devices.
        is_invite_only: whether devices need an invitation to join a host for the first time.
        identity: certificate to present, for TLS.
        insecure: whether callers on other machines need no token.
        hosts: further names of this machine, by which callers without a token may call it.
        make_sites: make what else is served at a host's address, of its environment.
    """

    host: str = access.LOOPBACK
    port: int = DEFAULT_PORT
    token: str | None = None
    submit_token: str | None = None
    admin_token: str | None = None
    is_invite_only: bool = False
    identity: ServerIdentity | None = None
    insecure: bool = False
    hosts: tuple[str, ...] = ()
    make_sites: tuple[Callable[[Environment], Site], ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of `serving`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in _OF_HOSTS}

    def access(self, folder: Path | None = None) -> HostAccess:
        """Return who may do what at a host that listens here.

        Args:
            folder: where that is kept; None to forget it with the process.
        """
        return HostAccess(
            {"learner": self.token, "submitter": self.submit_token, "admin": self.admin_token},
            is_invite_only=self.is_invite_only,
            fingerprint=None if self.identity is None else self.identity.fingerprint,
            folder=folder,
        )


class LiveFleet(Fleet):
    """Base of the fleets in real time.

    Args:
        make_machine: makes the machine of the host.

    Attributes:
        termination: whether SIGTERM came, and what it leads to.
        keeps_devices: whether a run that is resumed expects the same devices, with the keys that they had.
    """

    keeps_devices: ClassVar[bool] = False

    def __init__(self, listen: ListenOptions, make_machine: Callable[[], Machine] = LiveMachine) -> None:
        self.termination = Termination()
        self._listen = listen
        self._make_machine = make_machine

    def run(self, plan: Plan[Any], env: Environment, started_at: float = 0.0) -> Outcome:
        self.termination = Termination(can_go_on=plan.topology.can_resume(plan.job))
        env = replace(env, is_stopping=_either(env.is_stopping, self.termination.is_stopping))
        return run_live(self.run_plan(plan, env, started_at), self.termination)

    @abstractmethod
    def members(self, host: Host, plan: Plan[Any], address: str) -> AbstractAsyncContextManager[asyncio.Future[None]]:
        """Have members take part while the block runs; the future fails if too few are left to go on."""

    async def run_plan(self, plan: Plan[Any], env: Environment, started_at: float = 0.0) -> Outcome:
        """Run a plan on the running loop."""
        loop, machine = asyncio.get_running_loop(), self._make_machine()
        began_at = loop.time() - started_at
        access = self._listen.access(env.folder if self.keeps_devices else None)
        try:
            env = replace(env, clock="live", now=lambda: loop.time() - began_at, machine=machine, access=access)
            host = plan.host(env)
            self.termination.roles.append(host)
            sites = [make(env) for make in self._listen.make_sites]
            async with (
                serving(host, plan, HOST, env, sites=sites, **self._listen.settings) as address,
                self.members(host, plan, address) as trouble,
            ):
                await _unless(trouble, host.run(address))
                host.is_ending = True
                await host.drain()
            return host.outcome
        finally:
            access.close()
            machine.close()


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


class Terminated(KeyboardInterrupt):
    """SIGTERM ended it, once what was open was finished, or had taken too long."""


class Suspends(Protocol):
    """What may have something open as the process is told to end.

    Attributes:
        is_ending: set then; see `Role`.
    """

    is_ending: bool

    async def suspend(self) -> None:
        """Finish it, and begin nothing further; see `Role.suspend`."""


class Termination:
    """What SIGTERM leads to: what is open is finished; only then does the process end.

    A run that can go on later is suspended, so that devices wait for it. Any other ends early, with what was learned.

    Attributes:
        can_go_on: which of the two it is.
        is_requested: whether the signal came.
        roles: those of this process, and processes that have some of their own.
        signal: the signal, if it is another.
    """

    def __init__(self, *, can_go_on: bool = True, signal: signal.Signals = signal.SIGTERM) -> None:
        self.can_go_on = can_go_on
        self.signal = signal
        self.is_requested = False
        self.roles: list[Suspends] = []

    def is_stopping(self) -> bool:
        """Return whether roles should end early by themselves."""
        return self.is_requested and not self.can_go_on

    async def __call__(self) -> None:
        """Return once all may be cancelled."""
        self.is_requested = True
        for role in self.roles:
            role.is_ending = True
        await asyncio.gather(*(role.suspend() for role in self.roles))
        if self.is_stopping():
            await asyncio.get_running_loop().create_future()


def _either(one: Callable[[], bool], other: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: one() or other()


def run_live(main: Coroutine[Any, Any, T], termination: Termination | None = None) -> T:
    """Run a coroutine on a loop of its own; SIGINT and SIGTERM cancel it, and are raised as `KeyboardInterrupt`.

    It is cancelled once: further signals must not keep it from ending what it started.

    Args:
        termination: what comes before that on the first signal of its own, SIGTERM as a rule, for
            `TERMINATION_SECONDS` at most; it is raised as `Terminated`.
    """
    loop = loops.new_event_loop()
    task = loop.create_task(main)
    is_interrupted = False
    finishing: asyncio.Task[None] | None = None

    def interrupt() -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            task.cancel()

    async def finish(finish: Termination) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await loops.within(TERMINATION_SECONDS, finish())
        interrupt()

    def terminate() -> None:
        nonlocal finishing
        if finishing is not None:
            interrupt()
        elif termination is not None:
            finishing = loop.create_task(finish(termination))

    is_main_thread = threading.current_thread() is threading.main_thread()
    try:
        if is_main_thread:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, interrupt)
            if termination is not None:
                loop.add_signal_handler(termination.signal, terminate)
        with on_interrupt(lambda: loop.call_soon_threadsafe(interrupt)):
            return loop.run_until_complete(task)
    except asyncio.CancelledError:
        raise (KeyboardInterrupt if finishing is None else Terminated) from None
    finally:
        loops.shut_down(loop)
