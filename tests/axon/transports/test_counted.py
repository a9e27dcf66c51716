"""A counted transport knows the bytes of what it asks and is answered, and nothing of what it serves."""

import pytest

from paceline.axon.messages import Reply, Request, Stream
from paceline.axon.transports import CountedTransport, FaultyTransport, Link, MemoryNetwork
from paceline.errors import TransportError


async def items():
    for size in (3, 4):
        yield [bytes(size)]


class Doubling:
    def admit(self, head, num_body_bytes):
        return None

    async def handle(self, request):
        if request.path == "/stream":
            return Reply(stream=Stream(items()))
        return Reply(body=[bytes(len(request.content) * 2)])


@pytest.fixture
def network():
    return MemoryNetwork()


def exchange(run_virtual, network, ask, client=None):
    """Asks a worker by a counted transport, and returns it and that of the worker."""

    async def main():
        transport, served = CountedTransport(client or network.host("pi")), CountedTransport(network.host("hub"))
        listener = await served.listen(Doubling(), "hub", 0)
        try:
            await ask(transport, listener.address)
        finally:
            await listener.close()
        return transport, served

    return run_virtual(main())


def test_bodies_are_counted_both_ways_where_they_are_asked_for(run_virtual, network):
    async def ask(transport, address):
        for size in (10, 5):
            await transport.request(address, Request("POST", "/", body=[bytes(size), b"x"]), timeout=1)

    transport, served = exchange(run_virtual, network, ask)
    assert (transport.bytes_sent, transport.bytes_received) == (17, 34)
    assert (served.bytes_sent, served.bytes_received) == (0, 0)


def test_the_items_of_a_stream_are_counted_as_they_come(run_virtual, network):
    seen = []

    async def ask(transport, address):
        reply = await transport.request(address, Request("GET", "/stream"), timeout=1)
        async for _ in reply.stream:
            seen.append(transport.bytes_received)
        await reply.stream.aclose()

    exchange(run_virtual, network, ask)
    assert seen == [3, 7]


def test_what_is_lost_was_sent(run_virtual, network):
    async def ask(transport, address):
        with pytest.raises(TransportError):
            await transport.request(address, Request("POST", "/", body=[b"abc"]), timeout=1)

    transport, _ = exchange(run_virtual, network, ask, FaultyTransport(network.host("pi"), Link(loss=0.999999, seed=1)))
    assert (transport.bytes_sent, transport.bytes_received) == (3, 0)
