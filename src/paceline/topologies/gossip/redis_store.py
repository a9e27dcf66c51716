"""The store in a Redis server that all peers of a run can reach.

A peer's figures are the JSON text under ``paceline:figures:1:<run>:<learner>``, which Redis drops by itself after a
while. The set ``paceline:figures:1:<run>`` names the learners, so that nobody has to look through all keys of a server
that has other users; it lasts as long as the last figures in it. What a server answers is not trusted: whoever can
reach it can write to it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from paceline.errors import BadReply, ConfigError, Refused, TimedOut, Unreachable
from paceline.extras import extra
from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.stores import Store
from paceline.topologies.sessions import NAME

with extra("redis"):
    import redis.asyncio
    import redis.exceptions
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

MAX_LEARNERS = 10_000
"""Learners whose figures are read."""
MAX_FIGURES_BYTES = 1 << 16
"""Bytes of the figures of one learner; longer ones are malformed."""
MAX_RUN_LENGTH = 200
TTL_SECONDS = 180.0
"""How long figures are valid: three times as long as the minute between two of them."""
TIMEOUT_SECONDS = 2.0

_DEFAULT_PORT = 6379
_FORM = "it must be like redis://[user:password@]host[:port][/number], or rediss:// for TLS"
_T = TypeVar("_T")


class RedisStore(Store):
    """Figures in a Redis server.

    Args:
        url: ``redis://[user:password@]host[:port][/number]``, or ``rediss://`` for TLS.
        run: name of the run, alike for all its peers; other runs may share the server.
        ttl_seconds: how long figures are valid after they were published.
        timeout_seconds: limit of each operation, connecting included.

    Raises `ConfigError` for arguments that cannot be; nothing is connected before the first operation.
    """

    def __init__(
        self, url: str, run: str, *, ttl_seconds: float = TTL_SECONDS, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        if not 0 < len(run) <= MAX_RUN_LENGTH:
            raise ConfigError(f"run is {run[:80]!r}; allowed: 1 to {MAX_RUN_LENGTH} characters")
        for name, seconds in (("ttl_seconds", ttl_seconds), ("timeout_seconds", timeout_seconds)):
            if not 0.001 <= seconds < math.inf:
                raise ConfigError(f"{name} is {seconds}; it must be at least 0.001")
        self._index = f"paceline:figures:1:{quote(run, safe='')}"
        self._ttl_ms = round(ttl_seconds * 1000)
        self._timeout_seconds = timeout_seconds
        place = _parse(url)
        self.name = f"Redis at {place['host']}:{place['port']}"
        self._client = redis.asyncio.Redis(
            **place,
            protocol=2,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 1),  # a connection that was kept may be of a server that was since started anew
        )

    async def publish(self, figures: Figures) -> None:
        pipeline = self._client.pipeline(transaction=True)
        pipeline.set(self._key(figures.learner), msgspec.json.encode(figures), px=self._ttl_ms)
        pipeline.sadd(self._index, figures.learner)
        pipeline.pexpire(self._index, self._ttl_ms)
        await self._done(pipeline.execute())

    async def read(self) -> dict[str, Figures]:
        return await self._done(self._read())

    async def aclose(self) -> None:
        await self._done(self._client.aclose())

    async def _read(self) -> dict[str, Figures]:
        answer: Any = await self._client.srandmember(self._index, MAX_LEARNERS)
        members = [member.decode(errors="replace") for member in answer if isinstance(member, bytes)]
        learners = list(filter(NAME.fullmatch, members))
        if not learners:
            return {}
        pipeline = self._client.pipeline(transaction=False)
        for learner in learners:
            pipeline.getrange(self._key(learner), 0, MAX_FIGURES_BYTES)
        answers = await pipeline.execute(raise_on_error=False)
        found = zip(learners, map(_decode, answers), strict=True)
        return {learner: figures for learner, figures in found if figures is not None and figures.learner == learner}

    def _key(self, learner: str) -> str:
        return f"{self._index}:{learner}"

    async def _done(self, operation: Awaitable[_T]) -> _T:
        """Await an operation, for so long; its errors become Paceline's."""
        try:
            return await asyncio.wait_for(operation, self._timeout_seconds)
        except (asyncio.TimeoutError, redis.exceptions.TimeoutError) as error:
            raise TimedOut(f"{self.name}: no answer within {self._timeout_seconds:g} s") from error
        except (redis.exceptions.AuthenticationError, redis.exceptions.AuthorizationError) as error:
            raise Refused(f"{self.name}: refused the user or password: {error}", status=401) from error
        except redis.exceptions.NoPermissionError as error:
            raise Refused(f"{self.name}: the user may not do this: {error}", status=403) from error
        except (redis.exceptions.ConnectionError, OSError) as error:
            raise Unreachable(f"{self.name}: cannot be reached: {error}") from error
        except redis.exceptions.RedisError as error:
            raise BadReply(f"{self.name}: {error}") from error


def _parse(url: str) -> dict[str, Any]:
    """Return the client's settings for an address; passwords are never shown."""
    try:
        parts = urlsplit(url)
        port, number = parts.port or _DEFAULT_PORT, int(parts.path.strip("/") or 0)
    except ValueError:
        raise ConfigError(f"the address of the Redis server cannot be read; {_FORM}") from None
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or number < 0 or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
        raise ConfigError(f"the address of the Redis server is {shown!r}; {_FORM}")
    return {
        "host": parts.hostname,
        "port": port,
        "db": number,
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "ssl": parts.scheme == "rediss",
    }


def _decode(answer: object) -> Figures | None:
    """Decode figures; None if the answer is missing, an error, too long, or anything else."""
    if not isinstance(answer, bytes) or not 0 < len(answer) <= MAX_FIGURES_BYTES:
        return None
    try:
        return msgspec.json.decode(answer, type=Figures)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
