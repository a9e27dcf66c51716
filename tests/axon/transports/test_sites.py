"""Sites: apps at the address of a worker."""

from paceline import axon
from paceline.axon.messages import Reply, Request
from paceline.axon.transports import MemoryNetwork, MemoryTransport
from paceline.axon.transports.base import Address


class Greeting:
    """Answers one path, to whom it likes."""

    is_closed = False

    def serves(self, head):
        return head.path == "/greeting"

    def admit(self, head, num_body_bytes):
        return None if head.headers.get("accept") == "text/plain" else Reply.refusal(406, "text only")

    async def handle(self, request):
        return Reply(200, {"content-type": "text/plain"}, [b"hello"])

    async def close(self):
        self.is_closed = True


async def test_a_site_is_asked_first_and_the_worker_has_the_rest():
    worker, site = axon.Worker("pi"), Greeting()
    transport = MemoryTransport(MemoryNetwork())
    worker.rpc(name="double")(lambda x: 2 * x)

    async def get(path, **headers):
        reply = await transport.request(Address("pi", 1), Request("GET", path, headers=headers), timeout=5)
        return reply.status, bytes(reply.content)

    async with worker.serving(host="pi", port=1, token="S3cret", transport=transport, sites=[site]):
        assert await get("/greeting", accept="text/plain") == (200, b"hello")
        assert (await get("/greeting"))[0] == 406
        assert (await get("/"))[0] == 401
        status, listing = await get("/", authorization="Bearer S3cret")
        assert status == 200 and b"double" in listing
    assert site.is_closed
