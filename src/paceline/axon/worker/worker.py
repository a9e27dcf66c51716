"""A worker: a set of functions, and the means to serve them."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import signal
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from paceline.axon import loops, modules, wire
from paceline.axon.access import LOOPBACK, Access, TokenAccess, check_bind
from paceline.axon.host_names import HostNames
from paceline.axon.tls import ServerIdentity
from paceline.axon.transports.base import DEFAULT_PORT, Address, Site, Sites, Transport
from paceline.axon.transports.http import HttpTransport
from paceline.axon.wire import Limits
from paceline.axon.worker.app import WorkerApp
from paceline.axon.worker.monitoring import Monitoring
from paceline.axon.worker.mounted import MountedApp
from paceline.axon.worker.registry import Registry
from paceline.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """A set of functions and the means to serve them.

    Attributes:
        monitoring: what it counts, and shows at ``/metrics`` and ``/healthz``.

    Args:
        device: the name shown in descriptions and errors; this machine's host name by default.
        limits: what is accepted from callers.
    """

    def __init__(self, device: str | None = None, *, limits: Limits = wire.DEFAULT_LIMITS) -> None:
        self.device = device or platform.node() or "worker"
        self._limits = limits
        self.registry = Registry()
        self.monitoring = Monitoring()
        self._mounted: dict[str, Worker] = {}

    def rpc(self, *, name: str | None = None, executor: str | None = None) -> Callable[[F], F]:
        """Decorator that offers a function; a generator function streams its items.

        Args:
            name: what it is called by; its own name by default.
            executor: where it runs: ``"loop"`` (the default for ``async def``), ``"thread"`` (the default for
                ``def``) or ``"process"``.
        """

        def register(function: F) -> F:
            self.registry.add(function, name, executor)
            return function

        return register

    def service(self, subject: object, *, name: str | None = None, executor: str | None = None) -> None:
        """Offer an object's public methods, as ``method`` or, with a name given, ``name.method``."""
        methods = [m for m in dir(subject) if not m.startswith("_") and callable(getattr(subject, m))]
        if not methods:
            raise ConfigError(f"{subject!r} has no public methods to offer")
        for method in methods:
            self.registry.add(getattr(subject, method), f"{name}.{method}" if name else method, executor)

    def mount(self, path: str, worker: Worker) -> None:
        """Serve another worker's functions, too, to callers of the same rights, below a path such as ``/relay``.

        Callers learn of them only if they ask there: `MountedTransport` takes them.
        """
        self._mounted[path] = worker

    def app(self, access: Access, transport: Transport, names: HostNames) -> WorkerApp:
        """Return what answers the requests, for one who has them come by a way of its own; to be closed by the caller.

        Args:
            transport: carries the results of duplex calls.
            names: names that callers without a token may call it by.
        """
        return WorkerApp(self.registry, self.device, access, transport, self._limits, names, self.monitoring)

    @contextlib.asynccontextmanager
    async def serving(
        self,
        *,
        host: str = LOOPBACK,
        port: int = DEFAULT_PORT,
        token: str | None = None,
        access: Access | None = None,
        identity: ServerIdentity | None = None,
        insecure: bool = False,
        hosts: Collection[str] = (),
        transport: Transport | None = None,
        sites: Sequence[Site] = (),
        grace_seconds: float = 5.0,
    ) -> AsyncIterator[Address]:
        """Serve on the running loop while the block runs; gives the address.

        Args:
            host: the address to listen on; one that other machines can reach needs a token.
            port: 0 picks a free one.
            token: what callers must show.
            access: decides who may call what, in place of a token.
            identity: a certificate, for TLS.
            insecure: allow other machines to call without a token.
            hosts: further names of this machine, by which callers without a token may call it.
            transport: what carries requests; HTTP by default.
            sites: apps at the same address, which are asked first and decide by themselves who may see them.
            grace_seconds: how long calls under way may go on after the block; then they are cancelled.
        """
        access = access or TokenAccess(token)
        check_bind(host, is_open=access.is_open, insecure=insecure)
        transport = transport or HttpTransport(self._limits.max_body_bytes)
        names = HostNames(host, hosts)
        app = self.app(access, transport, names)
        mounted = [MountedApp(path, worker.app(access, transport, names)) for path, worker in self._mounted.items()]
        sites = [*sites, *mounted]
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(app.close_executors)
            for site in sites:
                stack.push_async_callback(site.close)
            listener = await transport.listen(Sites(sites, app) if sites else app, host, port, identity)
            self.monitoring.listener = listener
            stack.push_async_callback(listener.close)
            stack.push_async_callback(app.close, grace_seconds)
            yield listener.address

    @contextlib.contextmanager
    def serve(self, **settings: Any) -> Iterator[Address]:
        """Serve in the background while the block runs; settings as for `serving`."""
        serving = self.serving(**settings)
        address = loops.background.run(serving.__aenter__())
        try:
            yield address
        finally:
            loops.background.run(serving.__aexit__(None, None, None))

    def run(self, *, announce: Callable[[Address], None] | None = None, **settings: Any) -> None:
        """Serve until SIGINT or SIGTERM; `announce` receives the address. Settings are those of `serving`."""
        loop = loops.new_event_loop()
        try:
            loop.run_until_complete(self._serve_until_stopped(announce, settings))
        finally:
            loops.shut_down(loop)

    async def _serve_until_stopped(self, announce: Callable[[Address], None] | None, settings: Any) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with self.serving(**settings) as address:
            if announce is not None:
                announce(address)
            await stop.wait()
            for number in (signal.SIGINT, signal.SIGTERM):  # a second signal does not wait for calls to end
                loop.remove_signal_handler(number)


default = Worker()
"""The worker behind the functions below: enough for a process that is one."""

rpc = default.rpc
service = default.service
serve = default.serve


def init(port: int = DEFAULT_PORT, **settings: Any) -> None:
    """Serve what was offered until SIGINT or SIGTERM; settings as for `Worker.run`."""
    if not modules.init_returns:
        default.run(port=port, **settings)
