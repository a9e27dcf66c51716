"""Sites: apps at the address of a worker."""

from paceline import axon
from paceline.axon.messages import Reply, Request
from paceline.axon.transports import MemoryNetwork


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


def test_a_site_is_asked_first_and_the_worker_has_the_rest(run_virtual):
    async def main():
        worker, site, network = axon.Worker("hub"), Greeting(), MemoryNetwork()
        worker.rpc(name="double")(lambda x: 2 * x)
        transport = network.host("hub")
        async with worker.serving(host="hub", port=0, token="S3cret", transport=transport, sites=[site]) as address:

            async def get(path, **headers):
                reply = await network.host("pi").request(address, Request("GET", path, headers=headers), timeout=5)
                return reply.status, bytes(reply.content)

            assert await get("/greeting", accept="text/plain") == (200, b"hello")
            assert (await get("/greeting"))[0] == 406
            assert (await get("/"))[0] == 401
            status, listing = await get("/", authorization="Bearer S3cret")
            assert status == 200 and b"double" in listing
        assert site.is_closed

    run_virtual(main())
