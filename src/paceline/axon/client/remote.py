"""A worker's functions as if they were here: ``remote = axon.connect(url); remote.simple_hello("John")``."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from paceline.axon.client.blocking import call_and_wait
from paceline.axon.client.caller import Caller, CallOptions, ValueStream, new_call_id
from paceline.axon.retry import retry
from paceline.axon.signatures import Published, Signature, WorkerDescription
from paceline.axon.tls import ClientTrust
from paceline.axon.transports.base import DEFAULT_PORT, Address, Transport
from paceline.axon.transports.http import default_transport
from paceline.errors import BadReply, ConfigError
from paceline.spelling import suggest

if TYPE_CHECKING:
    from paceline.axon.fanout import BoundCall
    from paceline.axon.stubs import Handle


def parse_address(
    url: str,
    fingerprint: str | None = None,
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
) -> Address:
    """Parse a URL like ``http://10.0.0.2:7223``; https means TLS."""
    try:
        parts = urlsplit(url)
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"{url!r} is not a worker's address; it looks like http://10.0.0.2:{DEFAULT_PORT}")
    if parts.scheme == "http" and (fingerprint or ca_file or cert_file):
        raise ConfigError(f"{url!r}: a certificate was given, but http has none; use https")
    trust = ClientTrust(fingerprint, ca_file, cert_file, key_file) if parts.scheme == "https" else None
    return Address(parts.hostname, port, trust)


def connect(
    url: str,
    *,
    token: str | None = None,
    fingerprint: str | None = None,
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    interface: type | None = None,
    transport: Transport | None = None,
    **options: Any,
) -> Remote:
    """Return a worker whose functions can be called as attributes. Nothing is sent until the first call.

    Args:
        url: ``http://host:port``, or ``https://`` for TLS.
        token: what the worker wants to be shown.
        fingerprint: fingerprint of the worker's self-made certificate.
        ca_file: authorities that signed the worker's certificate, if the system does not know them.
        cert_file: own certificate (PEM), for a worker that demands one of its callers; `key_file` is its key.
        interface: a class whose annotated methods are what is expected of the worker; results are given the
            annotated types, and a worker that offers something else is refused at the first call. Its attribute
            ``noun``, if it has one, says in that message what the worker should be.
        transport: what carries the calls; HTTP by default.
        options: fields of `CallOptions`, such as ``timeout_seconds`` or ``duplex``.
    """
    address = parse_address(url, fingerprint, ca_file, cert_file, key_file)
    caller = Caller(transport or default_transport, address, token, CallOptions(**options))
    return Remote(caller, interface)


class Remote:
    """A worker's functions as attributes; see `connect`. Names with dots are reached as attributes in turn."""

    def __init__(self, caller: Caller, interface: type | None = None) -> None:
        self._caller = caller
        self._expected = _signatures_of(interface) if interface is not None else {}
        self._noun = str(getattr(interface, "noun", "what is expected"))
        self._offered: dict[str, Published] = {}

    @property
    def url(self) -> str:
        """Address of the worker."""
        return str(self._caller.address)

    def __getattr__(self, name: str) -> RemoteFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        return RemoteFunction(self, name, self._caller)

    def __getitem__(self, name: str) -> RemoteFunction:
        """Return a function by its whole name, also where an attribute of that name means something else."""
        return RemoteFunction(self, name, self._caller)

    def __repr__(self) -> str:
        return f"<Remote {self.url}>"

    def until(self, at: float) -> Remote:
        """Return the same worker for a call that ends by this time of the running loop."""
        remote = copy.copy(self)
        remote._caller = self._caller.until(at)
        return remote

    def describe_worker(self) -> WorkerDescription:
        """Ask the worker which functions it offers."""
        return call_and_wait(self._caller, self._caller.describe_worker())  # type: ignore[no-any-return]

    def reattach(self, call_id: str) -> Handle:
        """Wait for a duplex call that was started earlier, maybe by another process."""
        from paceline.axon.stubs import Handle

        return Handle(call_id, self._caller.reattach(call_id))

    async def _find(self, name: str, caller: Caller) -> Published:
        """Ask the worker for a function's signature; once, and again for a name that was not there."""
        rpc = self._offered.get(name)
        if rpc is None:
            description = await caller.describe_worker()
            _check_interface(self.url, self._noun, self._expected, description)
            self._offered.clear()  # in place: copies of this share it
            self._offered.update({offered.name: offered for offered in description.rpcs})
            rpc = self._offered.get(name)
            if rpc is None:
                hint = suggest(name, self._offered)
                raise AttributeError(f"{description.device} at {self.url} has no rpc {name!r}; {hint}")
        return rpc


class RemoteFunction:
    """One function of a worker, callable in each form."""

    def __init__(self, remote: Remote, name: str, caller: Caller) -> None:
        self._remote = remote
        self._name = name
        self._caller = caller

    def __getattr__(self, name: str) -> RemoteFunction:
        if name.startswith("_"):
            raise AttributeError(name)
        return RemoteFunction(self._remote, f"{self._name}.{name}", self._caller)

    async def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any], call_id: str | None = None) -> Any:
        options = self._caller.options
        if options.once and call_id is None:
            call_id = new_call_id()
        if not options.retry_seconds or options.duplex:
            return await self._attempt(args, kwargs, call_id)
        until = asyncio.get_running_loop().time() + options.deadline_seconds
        return await retry(
            lambda: self._attempt(args, kwargs, call_id, until), give_up_seconds=options.retry_seconds, until=until
        )

    async def _attempt(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], call_id: str | None, until: float = math.inf
    ) -> Any:
        (await self._remote._find(self._name, self._caller.until(until))).check(args, kwargs)
        result = await self._caller.until(until).call(self._name, args, kwargs, call_id=call_id)
        expected = self._remote._expected.get(self._name)
        if expected is None:
            return result
        if isinstance(result, ValueStream):
            return result.map(lambda item: self._typed(expected.convert_item, item))
        return self._typed(expected.convert_result, result)

    def _typed(self, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except TypeError as error:
            text = f"{self._remote.url}: {self._name} returned something else than announced: {error}"
            raise BadReply(text) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call and wait for the result; a generator's items come as an iterator."""
        return call_and_wait(self._caller, self._call(args, kwargs))

    def start(self, *args: Any, **kwargs: Any) -> Handle:
        """Call in the background."""
        from paceline.axon.stubs import Handle

        call_id = new_call_id()
        return Handle(call_id, self._call(args, kwargs, call_id))

    def coro(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Return the call as a coroutine to await; a generator's items come as an async iterator."""
        return self._call(args, kwargs)

    def bind(self, *args: Any, **kwargs: Any) -> BoundCall:
        """Return the call with its arguments, not made yet; for `fan_out`."""
        from paceline.axon.fanout import BoundCall

        return BoundCall(self._remote.url, functools.partial(self._call, args, kwargs))

    def options(self, **changes: Any) -> RemoteFunction:
        """Return the same function called with other `CallOptions`: ``remote.train.options(duplex=True)(…)``."""
        return RemoteFunction(self._remote, self._name, self._caller.with_options(**changes))


@functools.cache
def _signatures_of(interface: type) -> dict[str, Signature]:
    methods = inspect.getmembers(interface, inspect.isfunction)
    return {name: Signature.of(method, name) for name, method in methods if not name.startswith("_")}


def _check_interface(url: str, noun: str, expected: Mapping[str, Signature], description: WorkerDescription) -> None:
    offered = {rpc.name: [p.name for p in rpc.parameters] for rpc in description.rpcs}
    for name, signature in expected.items():
        wanted = [p.name for p in signature.published.parameters if p.name != "self"]
        if offered.get(name) != wanted:
            if name not in offered:
                raise ConfigError(f"{url} is not {noun}: it has no function {name!r}; check host and port")
            found = f"{name}({', '.join(offered[name])}) instead of {name}({', '.join(wanted)})"
            raise ConfigError(f"{url} is of another version: it has {found}; install the same version on both")
