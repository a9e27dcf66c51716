"""Names and sessions of devices that joined, waiting for changes, and joining again: shared by all topologies."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import paceline
from paceline import axon
from paceline.axon.retry import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from paceline.errors import BadReply, Busy, ConfigError, Refused, RemoteError, TlsFailed, TransportError, in_one_line
from paceline.topologies.access import HostAccess, Proof
from paceline.topologies.base import Node
from paceline.topologies.events import HostBack, HostLost

POLL_SECONDS = 20.0
"""Longest that a call waits for news before it is answered; middle boxes drop idle connections."""

RETRY_SECONDS = 3.0
"""How long a device attempts a call again before it takes the connection for lost, and joins anew."""

DRAIN_SECONDS = 5.0
"""Longest that a finished run waits for its devices to hear of the end."""

SILENT_SECONDS = 3600.0
"""How long nothing may be heard of a device that joined and was never ready, before it is forgotten."""

MAX_NAME_LENGTH = 64
NAME = re.compile(rf"[\w.@-][\w.@ -]{{0,{MAX_NAME_LENGTH - 1}}}")
NAME_RULE = f"allowed: 1 to {MAX_NAME_LENGTH} letters, digits, and . _ - @, with spaces between"
"""Rule for the names of devices, as messages state it."""

MAX_DEVICES = 100_000
"""Most names that may join a run, those that left included."""

SILENT = "nothing was heard of it"
"""Reason why a device is taken for gone."""

_MISSED_ROUNDS = 2  # without a sign of life; then a device counts as gone
_WOKEN_AT_ONCE = 8
_MOMENT_SECONDS = 1.0  # without its host that are no news of a device
_FINAL_STATUS = (401, 403, 404, 422)  # a wrong token or host name, or nobody who runs a job: trying again is no use


def check_name(name: str) -> None:
    """Raise `ConfigError` for a name that no device can have."""
    if not NAME.fullmatch(name):
        raise ConfigError(f"name is {name[:80]!r}; {NAME_RULE}")


def check_version(version: str) -> None:
    """Raise `ValueError` if a device runs another minor version of Paceline: its messages may differ."""
    if version.split(".")[:2] != paceline.__version__.split(".")[:2]:
        raise ValueError(
            f"version mismatch: the host runs paceline {paceline.__version__}, the device {version[:40]}; "
            "install the same on both"
        )


def padding(num_bytes: int, most: int) -> bytes:
    """Return bytes without meaning, to time or fill a link with; raises `ValueError` for more than `most`."""
    if not 0 <= num_bytes <= most:
        raise ValueError(f"{num_bytes} bytes to fill a link with; allowed: 0 to {most}")
    return bytes(num_bytes)


class Changes:
    """Wakes all who wait whenever something has happened, a few at a time, so that a crowd does not hold up others."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}  # in the order of coming

    def notify(self) -> None:
        """Wake all who wait."""
        if self._waiting:
            waiting, self._waiting = deque(self._waiting), {}
            _wake(waiting)

    async def next(self, seconds: float | None = None) -> None:
        """Wait for the next change, for at most this many seconds."""
        loop = asyncio.get_running_loop()
        change: asyncio.Future[None] = loop.create_future()
        self._waiting[change] = None
        timer = None if seconds is None else loop.call_later(seconds, _settle, change)
        try:
            await change
        finally:
            self._waiting.pop(change, None)
            if timer is not None:
                timer.cancel()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until a condition holds after some change, or for at most this many seconds."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while not is_so():
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                return
            await self.next(left)


def _wake(waiting: deque[asyncio.Future[None]]) -> None:
    """Wake the first of those who wait; the others once the loop has seen to everything else."""
    for change in [waiting.popleft() for _ in range(min(_WOKEN_AT_ONCE, len(waiting)))]:
        _settle(change)
    if waiting:
        waiting[0].get_loop().call_soon(_wake, waiting)


def _settle(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)


@dataclass
class Session:
    """A device that joined.

    Attributes:
        key: key that the device sends in every later call.
        is_ready: whether it waits for the next round or epoch.
        num_missed: rounds in a row in which nothing was heard of it.
        heard_at: when something was last heard of it, in seconds of the run.
        former: session of the same name that this one replaced.
    """

    name: str
    key: str
    is_ready: bool = False
    has_been_ready: bool = False
    num_missed: int = 0
    heard_at: float = 0.0
    former: Session | None = None


S = TypeVar("S", bound=Session)


class Roster(Generic[S]):
    """The devices of a run, by session key and by name.

    Args:
        make: makes a session from a name and a key.
        access: decides who may join; None to let everybody in.
        now: seconds of the run.
    """

    def __init__(
        self, make: Callable[[str, str], S], access: HostAccess | None = None, *, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._make = make
        self._access = access
        self._now = now
        self._never_ready: dict[str, S] = {}  # by key, in the order of joining
        self._by_key: dict[str, S] = {}
        self._by_name: dict[str, S] = {}
        self._seen: set[str] = set()
        self._excluded: dict[str, str] = {}
        self.num_ready = 0

    def __iter__(self) -> Iterator[S]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def join(self, name: str, proof: Proof | None = None) -> tuple[S, bool]:
        """Open a session; returns it, and whether one of that name was there before.

        Raises `ValueError` for a name that cannot be, is excluded, or belongs to another device, and `LookupError` for
        a proof that is too old.
        """
        try:
            self._check(name)
            if self._access is not None:
                self._access.enrol(name, proof, takes_over=name in self._by_name)
        except ValueError as error:
            if self._access is not None:
                self._access.record_refusal(name, "" if proof is None else proof.key, str(error))
            raise
        is_back = name in self._seen
        former = self._by_name.get(name)
        if former is not None:
            self.remove(former)
            self._by_key[former.key] = former  # to answer it, should it still be there
        session = self._make(name, secrets.token_hex(16))
        session.former, session.heard_at = former, self._now()
        self._never_ready[session.key] = session
        self._by_key[session.key] = self._by_name[name] = session
        self._seen.add(name)
        return session, is_back

    def _check(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} cannot be a device's name; {NAME_RULE}")
        if name in self._excluded:
            raise ValueError(f"{name!r} is excluded from this run: {self._excluded[name]}")
        if name not in self._seen and len(self._seen) >= MAX_DEVICES:
            raise ValueError(f"{MAX_DEVICES} devices have joined this run; no others can")

    def find(self, key: str) -> S:
        """Return a session; raises `LookupError`, or `RuntimeError` if another device has taken its name."""
        session = self._by_key.get(key)
        if session is None:
            raise LookupError("this session is not known here; join again")
        if self._by_name.get(session.name) is not session:
            raise RuntimeError(f"another device has joined as {session.name!r}; each needs a name of its own")
        session.num_missed = 0
        if not session.has_been_ready:
            session.heard_at = self._now()
        if self._access is not None:
            self._access.saw(session.name)
        return session

    def named(self, name: str) -> S | None:
        """Return the session of a name, if there is one."""
        return self._by_name.get(name)

    def set_ready(self, session: S, is_ready: bool) -> None:
        """Record whether a device will take part in the next round."""
        if self._by_name.get(session.name) is session:
            self.num_ready += is_ready - session.is_ready
            session.is_ready = is_ready
            if is_ready and not session.has_been_ready:
                session.has_been_ready = True
                self._never_ready.pop(session.key, None)

    def remove(self, session: S) -> None:
        """Forget a session."""
        self.set_ready(session, False)
        self._never_ready.pop(session.key, None)
        self._by_key.pop(session.key, None)
        if session.former is not None:
            self._by_key.pop(session.former.key, None)
            session.former = None
        if self._by_name.get(session.name) is session:
            del self._by_name[session.name]

    def exclude(self, name: str, reason: str) -> None:
        """Forget a device, and refuse its name from now on."""
        self._excluded[name] = reason
        session = self._by_name.get(name)
        if session is not None:
            self.remove(session)

    @property
    def has_drained(self) -> bool:
        """Whether nobody is left who may still ask: all left, have long been silent, or were never ready."""
        return not any(session.has_been_ready and session.num_missed < _MISSED_ROUNDS for session in self)

    @property
    def ready(self) -> list[S]:
        """Sessions that will take part in the next round, in the order of joining."""
        return [session for session in self if session.is_ready]

    def states(self) -> dict[str, int]:
        """Count devices that measure themselves, are ready for a round or in it, or silent since their last one."""
        num_new = len(self._never_ready)
        return {"measuring": num_new, "ready": self.num_ready, "silent": len(self) - num_new - self.num_ready}

    def drop_silent(self) -> list[S]:
        """Forget those of whom nothing was heard for long, and who never were ready; returns them.

        A device that measures itself calls often; one that died while it did must not keep its place for ever.
        """
        before = self._now() - SILENT_SECONDS
        gone: list[S] = []
        for session in self._never_ready.values():
            if session.heard_at >= before:
                break  # who joined later is looked at later
            gone.append(session)
        for session in gone:
            self.remove(session)
        return gone

    def count_missed(self) -> list[S]:
        """Count a round for those that are silent; returns, and forgets, who missed too many."""
        for session in self:
            session.num_missed += session.has_been_ready and not session.is_ready  # before, it measures itself
        gone = [session for session in self if session.num_missed > _MISSED_ROUNDS]
        for session in gone:
            self.remove(session)
        return gone


async def say_goodbye(host: axon.Remote, session: str) -> None:
    """Leave a host, if it was joined and can be reached."""
    if session:
        with contextlib.suppress(TransportError, RemoteError):
            await host.leave.options(timeout_seconds=5).coro(session)


async def until_over(join: Callable[[], Awaitable[None]], take_part: Callable[[], Awaitable[str]], node: Node) -> str:
    """Join and take part, again whenever the connection is lost, until the run is over; returns the reason.

    Records on the node that its host is lost, if that is not over in a moment, and when it is back.

    Raises the last `TransportError` when nobody could be reached for the node's patience, or at once if trying again
    would not help. A `RemoteError` is raised, too, unless it says that the session is not known any more.
    """
    loop, patience_seconds = asyncio.get_running_loop(), node.options.patience_seconds
    pause, failing_since, is_lost, has_joined = FIRST_PAUSE_SECONDS, None, False, False
    while True:
        try:
            await join()
            if is_lost:
                node.record(HostBack, learner=node.name)
            pause, failing_since, is_lost, has_joined = FIRST_PAUSE_SECONDS, None, False, True
            return await take_part()
        except RemoteError as error:
            if error.type_name != "LookupError":
                raise
        except TransportError as error:
            is_refused = isinstance(error, Refused) and error.status in _FINAL_STATUS
            if is_refused or isinstance(error, (BadReply, TlsFailed)):
                raise
            if isinstance(error, Busy):
                pause = max(pause, error.retry_after_seconds)
            if failing_since is None:  # calls of who has joined were attempted again for a while
                failing_since = loop.time() - (RETRY_SECONDS if has_joined else 0)
            failed_seconds = loop.time() + pause - failing_since
            if failed_seconds > patience_seconds:
                raise
            if not is_lost and failed_seconds > _MOMENT_SECONDS:
                is_lost = True
                node.record(HostLost, learner=node.name, reason=in_one_line(error), patience_seconds=patience_seconds)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
