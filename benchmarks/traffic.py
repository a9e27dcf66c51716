"""Transports that count what they carry: models, and all that peers say besides."""

from __future__ import annotations

from typing import NamedTuple

from paceline.axon.messages import Body, Reply, Request, num_bytes
from paceline.axon.transports import Address, HttpTransport, Link
from paceline.axon.transports.memory import MemoryNetwork, MemoryTransport

_EXCHANGES = ("/rpc/fetch_model", "/rpc/push")
_VIEWS = ("/rpc/exchange_views", "/")


class Traffic(NamedTuple):
    """What was asked and answered; bytes are those of bodies, without the heads of HTTP.

    Attributes:
        num_models: models that were fetched or pushed in an epoch, not at the end of the run.
        exchange_bytes: bytes of these questions and answers, with the models in them.
        meeting_bytes: bytes of what peers sent each other besides.
    """

    num_models: int = 0
    exchange_bytes: int = 0
    meeting_bytes: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What came after."""
        return Traffic(*(now - then for now, then in zip(self, before, strict=True)))


class Counter:
    """Counts questions and answers.

    Args:
        model_bytes: that a body with a model in it has at least.
    """

    def __init__(self, model_bytes: int) -> None:
        self._model_bytes = model_bytes
        self.traffic = Traffic()

    def count(self, path: str, *bodies: Body) -> None:
        """What was asked at a path, and answered."""
        models, exchanged, met = self.traffic
        sizes = [num_bytes(body) for body in bodies]
        if path in _EXCHANGES:
            num_models = sum(size >= self._model_bytes for size in sizes)
            self.traffic = Traffic(models + num_models, exchanged + sum(sizes), met)
        elif path in _VIEWS:
            self.traffic = Traffic(models, exchanged, met + sum(sizes))


class CountedHttp(HttpTransport):
    """HTTP; counts what was asked over it."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        reply = await super().request(address, request, timeout=timeout)
        self._counter.count(request.path, request.body, reply.body)
        return reply


class CountedNetwork(MemoryNetwork):
    """A network in memory; counts what went over all of it."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def host(self, name: str, link: Link = Link()) -> MemoryTransport:  # noqa: B008  (frozen)
        return _CountedHost(self, name, link)


class _CountedHost(MemoryTransport):
    def __init__(self, network: CountedNetwork, name: str, link: Link) -> None:
        super().__init__(network, name, link)
        self._counter = network.counter

    async def request(self, address: Address, request: Request, *, timeout: float) -> Reply:
        reply = await super().request(address, request, timeout=timeout)
        self._counter.count(request.path, request.body, reply.body)
        return reply
