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


def test_what_is_asked_and_answered_is_counted(run_virtual):
    async def main():
        network = MemoryNetwork()
        asking, served = CountedTransport(network.host("pi")), CountedTransport(network.host("hub"))
        listener = await served.listen(Doubling(), "hub", 0)
        for size in (10, 5):
            await asking.request(listener.address, Request("POST", "/", body=[bytes(size), b"x"]), timeout=1)
        assert (asking.bytes_sent, asking.bytes_received) == (17, 34)
        reply = await asking.request(listener.address, Request("GET", "/stream"), timeout=1)
        assert [asking.bytes_received - 34 async for _ in reply.stream] == [3, 7]  # as they come
        await reply.stream.aclose()
        lossy = CountedTransport(FaultyTransport(network.host("pi"), Link(loss=0.999999, seed=1)))
        with pytest.raises(TransportError):
            await lossy.request(listener.address, Request("POST", "/", body=[b"abc"]), timeout=1)
        assert (lossy.bytes_sent, lossy.bytes_received) == (3, 0)
        assert (served.bytes_sent, served.bytes_received) == (0, 0)
        await listener.close()

    run_virtual(main())
