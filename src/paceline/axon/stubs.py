"""The thesis's six stubs: Sync, Async or Coro × Simplex or Duplex. Each is one function of one worker.

Sync blocks, Async returns a `Handle` of the call, which goes on in the background, Coro is awaited. Simplex is one
request; Duplex is confirmed at once and answered in a request of the worker's own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any

from paceline.axon import loops
from paceline.axon.client.blocking import call_and_wait, for_threads
from paceline.axon.client.caller import Caller, CallOptions, ValueStream, new_call_id
from paceline.axon.tls import ClientTrust
from paceline.axon.transports.base import DEFAULT_PORT, Address, Transport
from paceline.axon.transports.http import default_transport
from paceline.errors import TimedOut


class Handle:
    """A call under way: `join` it from any thread, or await it; another process can reattach to its `call_id`."""

    def __init__(self, call_id: str, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.call_id = call_id
        self._future = loops.background.submit(coroutine)

    def join(self, timeout: float | None = None) -> Any:
        """Return the result or raise what the call raised; `TimedOut` after `timeout` seconds, and the call goes on."""
        try:
            return for_threads(self._future.result(timeout), loops.background)
        except TimedOut:
            raise  # the call itself was late
        except concurrent.futures.TimeoutError as error:
            raise TimedOut(f"call {self.call_id} has not ended within {timeout:g} s; it goes on") from error

    def done(self) -> bool:
        """Return whether it has ended, one way or another."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give up on the call; the far function is stopped where it can be. False if it had ended already."""
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        result = yield from asyncio.wrap_future(self._future).__await__()
        return _from_background(result) if isinstance(result, ValueStream) else result


def _from_background(stream: ValueStream) -> ValueStream:
    """Adapt a stream of the background loop for use on the running one."""

    async def items() -> AsyncGenerator[Any, None]:
        while True:
            is_item, item = await asyncio.wrap_future(loops.background.submit(stream.take()))
            if not is_item:
                return
            yield item

    async def close() -> None:
        await asyncio.wrap_future(loops.background.submit(stream.aclose()))

    return ValueStream(items(), close)


class _Stub:
    """A function of a worker.

    Args:
        worker_ip: the worker's host.
        rpc_name: the function's name there.
        fingerprint: its certificate's; given, the connection is TLS and accepts that certificate only.
        options: further arguments as for `paceline.axon.connect`.
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
