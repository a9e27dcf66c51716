"""Every transport keeps the one contract, and every stub works on it."""

import asyncio

import pytest

from paceline.axon.transports import CountedTransport, FaultyTransport, HttpTransport, Link, MemoryNetwork
from paceline.fleets import virtual_loop
from paceline.testing.transports import StubContract, TransportContract


class OverHttp:
    @pytest.fixture
    def client_transport(self):
        return HttpTransport()

    @pytest.fixture
    def worker_transport(self):
        return HttpTransport()


class OverMemory:
    @pytest.fixture
    def network(self):
        return MemoryNetwork()

    @pytest.fixture
    def client_transport(self, network):
        return network.host("client")

    @pytest.fixture
    def worker_transport(self, network):
        return network.host("worker")


class OverBadLink(OverMemory):
    """Slow both ways, on either side; nothing is lost, so everything must still work."""

    @pytest.fixture
    def client_transport(self, network):
        return FaultyTransport(network.host("client"), self.link())

    @pytest.fixture
    def worker_transport(self, network):
        return FaultyTransport(network.host("worker"), self.link())

    @staticmethod
    def link():
        return Link(latency_seconds=0.002, up_bytes_per_second=100e6, down_bytes_per_second=100e6)


class OverCounted(OverMemory):
    @pytest.fixture
    def client_transport(self, network):
        return CountedTransport(network.host("client"))

    @pytest.fixture
    def worker_transport(self, network):
        return CountedTransport(network.host("worker"))


class TestHttpTransport(OverHttp, TransportContract):
    pass


class TestHttpStubs(OverHttp, StubContract):
    pass


class TestMemoryTransport(OverMemory, TransportContract):
    pass


class TestMemoryTransportOnVirtualTime(OverMemory, TransportContract):
    @pytest.fixture
    def run(self):
        return virtual_loop.run


class TestMemoryStubs(OverMemory, StubContract):
    pass


class TestFaultyTransport(OverBadLink, TransportContract):
    pass


class TestFaultyStubs(OverBadLink, StubContract):
    pass


class TestCountedTransport(OverCounted, TransportContract):
    pass


class TestCountedStubs(OverCounted, StubContract):
    pass


def test_a_day_on_virtual_time_takes_no_time():
    """A duplex call of a day, with its callback, over a network in memory and a clock that jumps."""
    from paceline.axon.client import CoroDuplexStub
    from paceline.testing.transports import make_worker

    async def main():
        network, loop = MemoryNetwork(), asyncio.get_running_loop()
        worker = make_worker()

        @worker.rpc()
        async def train_for(seconds: float) -> str:
            await asyncio.sleep(seconds)
            return "trained"

        async with worker.serving(port=0, transport=network.host("pi1")) as address:
            stub = CoroDuplexStub(
                address.host,
                "train_for",
                port=address.port,
                transport=FaultyTransport(network.host("laptop"), Link(latency_seconds=0.05)),
            )
            start = loop.time()
            assert await stub(86_000.0) == "trained"
            assert loop.time() - start == pytest.approx(86_000, abs=0.5)

    virtual_loop.run(main())
