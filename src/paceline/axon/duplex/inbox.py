"""What arrives for duplex calls: a server where workers deliver results, and an inbox per call."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from typing import NamedTuple
from weakref import WeakKeyDictionary

from paceline.axon import loops, wire
from paceline.axon.access import refuse_stranger
from paceline.axon.messages import Body, Reply, Request
from paceline.axon.tls import ClientTrust, ServerIdentity, is_fingerprint
from paceline.axon.transports.base import Address, Transport
from paceline.errors import PacelineError

_AHEAD = 16  # messages of a stream that may wait for its consumer
_REMEMBERED = 4096  # ended calls whose late deliveries are still confirmed


class Inbox:
    """Messages that have arrived for one call, in order, each once however often it was sent."""

    def __init__(self) -> None:
        self.last_number = 0
        self.is_settled = False  # the last message was pushed here, so its sender knows that it arrived
        self._bodies: deque[Body] = deque()
        self._error: PacelineError | None = None
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def deliver(self, number: int, body: Body, *, is_pushed: bool) -> None:
        """Take message `number`; one that was here before is dropped."""
        if number > self.last_number:
            self.last_number = number
            self.is_settled = is_pushed and wire.is_last(body)
            self._bodies.append(body)
            self._arrived.set()
            if len(self._bodies) >= _AHEAD:
                self._has_room.clear()

    async def room(self) -> None:
        """Wait until the consumer of a stream has caught up; before that nothing more should be delivered."""
        await self._has_room.wait()

    def fail(self, error: PacelineError) -> None:
        """Have `next` raise this error once all messages are taken."""
        self._error = error
        self._arrived.set()

    async def next(self) -> Body:
        """Return the next message; raises what `fail` was given when there is none."""
        while not self._bodies:
            if self._error is not None:
                raise self._error
            self._arrived.clear()
            await self._arrived.wait()
        self._has_room.set()
        return self._bodies.popleft()


class ReplyTo(NamedTuple):
    """Where a worker delivers: a port on the caller's host, the token to show, the certificate to expect."""

    port: int
    token: str
    fingerprint: str = ""

    def header(self) -> str:
        """Return the value of the axon-reply-to header."""
        return f"{self.port} {self.token} {self.fingerprint}".strip()

    @classmethod
    def parse(cls, header: str) -> ReplyTo | None:
        """Read the header; None if the caller will poll. Raises `ValueError`."""
        if header == "poll":
            return None
        port, token, fingerprint = (*header.split(" "), "")[:3]
        is_valid = port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536
        if not is_valid or header.count(" ") not in (1, 2) or (fingerprint and not is_fingerprint(fingerprint)):
            raise ValueError("axon-reply-to: it is 'poll', or a port, a token and perhaps a certificate's fingerprint")
        return cls(int(port), token, fingerprint)

    def address(self, host: str) -> Address:
        """Return the full address, on the host that the call came from and no other."""
        return Address(host, self.port, ClientTrust(self.fingerprint) if self.fingerprint else None)


class ReplyServer:
    """An App that takes deliveries for the calls of one event loop.

    A worker proves itself by the token it was given with the call, and can reach only calls whose id it knows.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self.token = secrets.token_urlsafe(16)
        self._inboxes: dict[str, Inbox] = {}
        self._ended: OrderedDict[str, int] = OrderedDict()  # number of the last message that came
        self._max_body_bytes = max_body_bytes
        self.reply_to: ReplyTo  # what a worker is given
        self.guard: object = None  # closes the listener with its loop

    def add(self, call_id: str, inbox: Inbox) -> None:
        """Take deliveries for a call."""
        self._inboxes[call_id] = inbox

    def remove(self, call_id: str) -> None:
        """Take no more deliveries for a call; late repeats are still confirmed, so that the worker stops."""
        inbox = self._inboxes.pop(call_id, None)
        self._ended[call_id] = inbox.last_number if inbox is not None else 0
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        refusal = refuse_stranger(head.headers, self.token)
        if refusal is not None:
            return refusal
        call_id, number = head.path.removeprefix("/results/"), head.headers.get("axon-number", "")
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            return Reply.refusal(400, "a delivery says its number in the axon-number header")
        if call_id not in self._inboxes and int(number) > self._ended.get(call_id, 0):
            return Reply.refusal(404, f"nobody here waits for call {call_id}")
        if num_body_bytes > self._max_body_bytes:
            return Reply.refusal(413, f"a delivery may have {self._max_body_bytes} bytes")
        return None

    async def handle(self, request: Request) -> Reply:
        inbox = self._inboxes.get(request.path.removeprefix("/results/"))
        if inbox is not None:
            await inbox.room()
            inbox.deliver(int(request.headers["axon-number"]), request.body, is_pushed=True)
        return Reply(200)


_Key = tuple[Transport, str, bool]
_Servers = dict[_Key, "asyncio.Task[ReplyServer]"]
_servers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Servers] = WeakKeyDictionary()


async def reply_server_for(transport: Transport, address: Address, max_body_bytes: int) -> ReplyServer:
    """Return the server at which this loop takes deliveries from the worker at `address`; opened on first use."""
    loop = asyncio.get_running_loop()
    servers = _servers.setdefault(loop, {})
    key = (transport, await transport.reply_host(address), address.trust is not None)
    if key not in servers:
        servers[key] = loop.create_task(_open(servers, key, max_body_bytes))
    return await asyncio.shield(servers[key])  # others wait for it too


async def _open(servers: _Servers, key: _Key, max_body_bytes: int) -> ReplyServer:
    transport, host, tls = key
    server = ReplyServer(max_body_bytes)
    try:
        identity = ServerIdentity.self_made() if tls else None
        listener = await transport.listen(server, host, 0, identity)
        server.reply_to = ReplyTo(listener.address.port, server.token, identity.fingerprint if identity else "")

        async def close() -> None:
            servers.pop(key, None)
            await listener.close()

        server.guard = await loops.close_with_loop(close)
    except BaseException:
        servers.pop(key, None)
        raise
    return server
