"""Every transport keeps the one contract, and every stub works on it."""

import asyncio

import pytest

from paceline.axon.client import CoroDuplexStub
from paceline.axon.transports import CountedTransport, FaultyTransport, HttpTransport, Link, MemoryNetwork
from paceline.fleets import virtual_loop
from paceline.testing.transports import StubContract, TransportContract, make_worker


def slow(transport):
    """Slow both ways, on either side; nothing is lost, so everything must still work."""
    link = Link(latency_seconds=0.002, up_bytes_per_second=100e6, down_bytes_per_second=100e6)
    return FaultyTransport(transport, link)


def over_memory(wrap=lambda transport: transport):
    network = MemoryNetwork()
    return wrap(network.host("client")), wrap(network.host("worker"))


PAIRS = {
    "http": lambda: (HttpTransport(), HttpTransport()),
    "memory": over_memory,
    "faulty": lambda: over_memory(slow),
    "counted": lambda: over_memory(CountedTransport),
}


@pytest.fixture(params=PAIRS)
def pair(request):
    return PAIRS[request.param]()


@pytest.fixture
def client_transport(pair):
    return pair[0]


@pytest.fixture
def worker_transport(pair):
    return pair[1]


class TestTransports(TransportContract):
    pass


class TestStubs(StubContract):
    pass


@pytest.mark.parametrize("pair", ["memory"], indirect=True)
class TestMemoryTransportOnVirtualTime(TransportContract):
    @pytest.fixture
    def run(self):
        return virtual_loop.run


def test_a_day_on_virtual_time_takes_no_time():
    """A duplex call of a day, with its callback, over a network in memory and a clock that jumps."""

    async def main():
        network, loop = MemoryNetwork(), asyncio.get_running_loop()
        worker = make_worker()

        @worker.rpc()
        async def train_for(seconds: float) -> str:
            await asyncio.sleep(seconds)
            return "trained"

        async with worker.serving(port=0, transport=network.host("pi1")) as address:
            transport = FaultyTransport(network.host("laptop"), Link(latency_seconds=0.05))
            stub = CoroDuplexStub(address.host, "train_for", port=address.port, transport=transport)
            start = loop.time()
            assert await stub(86_000.0) == "trained"
            assert loop.time() - start == pytest.approx(86_000, abs=0.5)

    virtual_loop.run(main())
