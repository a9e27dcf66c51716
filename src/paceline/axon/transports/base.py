"""The transport interface: one call with a request in and a reply out, and its other end."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.axon.messages import Reply, Request
from paceline.axon.metrics import Metric
from paceline.axon.tls import ClientTrust, ServerIdentity
from paceline.errors import ConfigError

DEFAULT_PORT = 7223

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where a worker listens. `trust` set means TLS, and says how the worker's certificate is checked."""

    host: str
    port: int
    trust: ClientTrust | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ConfigError(f"port {self.port} is not between 0 and 65535")

    def __str__(self) -> str:
        scheme = "https" if self.trust else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


class App(Protocol):
    """The serving side of an exchange: a function from request to reply that needs no socket."""

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        """Look at a request before its body is read; a reply returned here refuses it unread."""

    async def handle(self, request: Request) -> Reply:
        """Answer a whole request. Cancelled when the asking side goes away."""


class Site(App, Protocol):
    """An app at the address of another one, which answers some of the requests there."""

    def serves(self, head: Request) -> bool:
        """Return whether a request is for this app."""

    async def close(self) -> None:
        """Let go of what it holds."""


class Sites(App):
    """The first site that serves a request answers it; without one, the app does."""

    def __init__(self, sites: Sequence[Site], app: App) -> None:
        self._sites, self._app = sites, app

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        return self._find(head).admit(head, num_body_bytes)

    async def handle(self, request: Request) -> Reply:
        return await self._find(request).handle(request)

    def _find(self, head: Request) -> App:
        return next((site for site in self._sites if site.serves(head)), self._app)


async def answer(app: App, request: Request) -> Reply:
    """Return an app's reply; what it raises by mistake is logged, and answered as such."""
    try:
        return await app.handle(request)
    except Exception:
        _log.exception("the handler of %s %s raised", request.method, request.path)
        return Reply.refusal(500, "the worker failed to answer; its log says why")


class Listener(ABC):
    """An App being served."""

    address: Address

    @abstractmethod
    async def close(self) -> None:
        """Stop accepting, end open exchanges, release the port; does nothing the second time."""

    def metrics(self) -> Iterable[Metric]:
        """Return what is known of its connections."""
        return ()


class Transport(ABC):
    """Carries requests to addresses, and serves apps at them.

    Implementations must hand the receiver buffers of its own (never the sender's memory), must cancel
    `App.handle` when the requester is cancelled or gone, and must raise only `TransportError`s:
    `Unreachable` if the request never reached an app, `TimedOut`, or `ConnectionLost`.
    """

    is_free_of_loops = False
    """Whether requests may be made from any event loop, and need it only until they are answered."""

    @abstractmethod
    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        """Send a request and wait at most `timeout` seconds for the reply (for a stream: for its start)."""

    @abstractmethod
    async def reply_host(self, address: Address) -> str:
        """Return the host to listen on so that whoever is at `address` can reach this side, if anything can."""

    @abstractmethod
    async def listen(self, app: App, host: str, port: int, identity: ServerIdentity | None = None) -> Listener:
        """Serve an app; port 0 picks a free one. `identity` set means TLS."""


class TransportWrapper(Transport):
    """Another transport, with a `request` that does more; what it serves is untouched."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        return await self._inner.request(address, request, timeout=timeout)

    async def reply_host(self, address: Address) -> str:
        return await self._inner.reply_host(address)

    async def listen(self, app: App, host: str, port: int, identity: ServerIdentity | None = None) -> Listener:
        return await self._inner.listen(app, host, port, identity)
