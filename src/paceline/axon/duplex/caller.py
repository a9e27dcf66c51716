"""The caller's side of a duplex call: start it, take what is delivered, fetch what is not, and let it be forgotten."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from paceline.axon import loops
from paceline.axon.client.caller import Caller, ValueStream
from paceline.axon.duplex.inbox import Inbox, ReplyServer, reply_server_for
from paceline.axon.messages import Body, Reply, Request, num_bytes
from paceline.axon.retry import retry
from paceline.errors import ConfigError, ConnectionLost, Refused, TransportError

_POLL_SECONDS = 20.0  # shorter than the idle limits of the usual middle boxes
_REQUEST_SECONDS = 10.0  # a request that is answered at once, besides what its bytes take
_SLOW_BYTES_PER_SECOND = 50_000.0
_WATCH_AFTER_SECONDS = 1.0  # a duplex call shorter than this costs no watching
_FORGET_SECONDS = 5.0


class DuplexCall:
    """One duplex call as its caller sees it; `name` stands in messages."""

    def __init__(self, caller: Caller, name: str, call_id: str) -> None:
        self._caller = caller
        self._name = name
        self._call_id = call_id
        self._inbox = Inbox()
        self._replies: ReplyServer | None = None  # where the worker delivers; without one, messages are fetched
        self._is_over = False

    async def start(self, request: Request) -> Any:
        """Send the call until it is confirmed, and wait for its result; a generator's is a `ValueStream`."""
        caller, options = self._caller, self._caller.options
        if options.reachable:
            with contextlib.suppress(TransportError, ConfigError):  # this side cannot listen
                self._replies = await reply_server_for(caller.transport, caller.address, options.limits.max_body_bytes)
                self._replies.add(self._call_id, self._inbox)
        reply_to = "poll" if self._replies is None else self._replies.reply_to.header()
        request.headers = {**request.headers, "axon-call": self._call_id, "axon-reply-to": reply_to}
        timeout = _transfer_seconds(num_bytes(request.body))

        async def confirm() -> Reply:
            reply = await caller.transport.request(caller.address, request, timeout=timeout)
            caller.check(reply, expected=202)
            return reply

        try:
            reply = await retry(confirm, give_up_seconds=options.patience_seconds)
        except BaseException:
            await self._end()
            raise
        return await self._receive(reply)

    async def reattach(self) -> Any:
        """Wait for the result of a call that was started earlier."""
        return await self._receive(await self._fetch(0, is_pushed=True))

    async def _receive(self, confirmed: Reply) -> Any:
        bodies = self._delivered()
        if confirmed.headers.get("axon-stream") == "1":
            return ValueStream(self._caller.items(bodies, self._name), self._end)
        async with contextlib.aclosing(bodies):
            return self._caller.result(await self._caller.in_time(anext(bodies), self._name))

    async def _delivered(self) -> AsyncGenerator[Body, None]:
        """Messages as they come, without an end: who has seen the last one closes this."""
        watching = asyncio.ensure_future(self._watch())
        try:
            while True:
                yield await self._inbox.next()
        finally:
            watching.cancel()
            await self._end()

    async def _watch(self) -> None:
        """Long-poll: notice a worker that died, and fetch what it could not deliver."""
        caller, inbox = self._caller, self._inbox
        if self._replies is not None:
            await asyncio.sleep(_WATCH_AFTER_SECONDS)
        try:
            while True:
                await inbox.room()
                reply = await retry(self._poll, give_up_seconds=caller.options.patience_seconds)
                if reply.status != 204:
                    inbox.deliver(int(reply.headers.get("axon-number", 0)), reply.body, is_pushed=False)
        except Refused as error:
            inbox.fail(ConnectionLost(str(error)) if error.status == 404 else error)
        except (TransportError, ValueError) as error:
            inbox.fail(ConnectionLost(f"{caller.address} was lost while it ran {self._name}: {error}"))

    async def _poll(self) -> Reply:
        """Ask for the next message. A large one is announced first, so that it is given the time it needs."""
        is_pushed = self._replies is not None
        reply = await self._fetch(_POLL_SECONDS, is_pushed=is_pushed)
        num_waiting_bytes = int(reply.headers.get("axon-waiting", 0))
        if num_waiting_bytes:
            reply = await self._fetch(0, is_pushed=is_pushed, num_expected_bytes=num_waiting_bytes)
        return reply

    async def _fetch(self, wait_seconds: float, *, is_pushed: bool, num_expected_bytes: int = 0) -> Reply:
        query = {"after": str(self._inbox.last_number), "wait": str(wait_seconds)}
        if is_pushed:
            query["pushed"] = "1"
        timeout = wait_seconds + _transfer_seconds(num_expected_bytes)
        reply = await self._request("GET", timeout, query)
        if reply.status != 204:
            self._caller.check(reply)
        return reply

    async def _end(self) -> None:
        """Take no more deliveries, and let the worker forget the call: it stops one that still runs."""
        if self._is_over:
            return
        self._is_over = True
        if self._replies is not None:
            self._replies.remove(self._call_id)
        if self._inbox.is_settled or loops.is_shutting_down():
            return  # the last message was pushed and confirmed; or a later process may want to reattach
        with contextlib.suppress(TransportError):  # the worker forgets by itself, later
            await self._request("DELETE", _FORGET_SECONDS, {})

    async def _request(self, method: str, timeout: float, query: dict[str, str]) -> Reply:
        request = Request(method, f"/calls/{self._call_id}", query, self._caller.authorization)
        return await self._caller.transport.request(self._caller.address, request, timeout=timeout)


def _transfer_seconds(num_bytes: int) -> float:
    """Bound the seconds of a request that does not wait for the function."""
    return _REQUEST_SECONDS + num_bytes / _SLOW_BYTES_PER_SECOND
