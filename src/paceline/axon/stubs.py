"""The thesis's six stubs: Sync, Async or Coro × Simplex or Duplex. Each is one function of one worker.

Sync blocks, Async returns a `Handle` to join, Coro is awaited. Simplex is one request; Duplex is confirmed at once
and answered in a request of the worker's own.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from paceline.axon.client.blocking import call_and_wait
from paceline.axon.client.caller import Caller, CallOptions, new_call_id
from paceline.axon.handles import Handle
from paceline.axon.tls import ClientTrust
from paceline.axon.transports.base import DEFAULT_PORT, Address, Transport
from paceline.axon.transports.http import default_transport


class _Stub:
    """A function of a worker.

    Args:
        worker_ip: the worker's host.
        port: its port.
        rpc_name: the function's name there.
        token: what the worker wants to be shown.
        fingerprint: its certificate's; given, the connection is TLS and accepts that certificate only.
        transport: what carries the calls; HTTP by default.
        options: further fields of `CallOptions`, such as ``timeout_seconds``.
    """

    _is_duplex = False

    def __init__(
        self,
        worker_ip: str,
        rpc_name: str,
        port: int = DEFAULT_PORT,
        token: str | None = None,
        fingerprint: str | None = None,
        transport: Transport | None = None,
        **options: Any,
    ) -> None:
        address = Address(worker_ip, port, ClientTrust(fingerprint) if fingerprint else None)
        self._name = rpc_name
        self._caller = Caller(
            transport or default_transport, address, token, CallOptions(duplex=self._is_duplex, **options)
        )

    def _call(self, args: Any, kwargs: Any, call_id: str | None = None) -> Coroutine[Any, Any, Any]:
        return self._caller.call(self._name, args, kwargs, call_id=call_id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} at {self._caller.address}>"


class SyncSimplexStub(_Stub):
    """Blocks until the one request is answered."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a generator's items come as an iterator."""
        return call_and_wait(self._caller, self._call(args, kwargs))


class AsyncSimplexStub(_Stub):
    """Returns a handle while the one request goes on."""

    def __call__(self, *args: Any, **kwargs: Any) -> Handle:
        """Start the call."""
        call_id = new_call_id()
        return Handle(call_id, self._call(args, kwargs, call_id))


class CoroSimplexStub(_Stub):
    """Is awaited."""

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Call the function; a generator's items come as an async iterator."""
        return self._call(args, kwargs)


class SyncDuplexStub(SyncSimplexStub):
    """Blocks until the worker has sent the result."""

    _is_duplex = True


class AsyncDuplexStub(AsyncSimplexStub):
    """Returns a handle; the worker sends the result."""

    _is_duplex = True


class CoroDuplexStub(CoroSimplexStub):
    """Is awaited; the worker sends the result."""

    _is_duplex = True
