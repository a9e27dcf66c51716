"""Every transport keeps the one contract, and every stub works on it."""

import pytest

from paceline.axon.transports import CountedTransport, FaultyTransport, HttpTransport, Link, MemoryNetwork
from paceline.fleets import virtual_loop
from paceline.testing.transports import StubContract, TransportContract


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
