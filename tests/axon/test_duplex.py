"""Duplex calls survive stalls, losses and restarts, and no call runs twice."""

import asyncio
import contextlib

import pytest

from paceline import axon
from paceline.axon.client import CoroDuplexStub, CoroSimplexStub
from paceline.axon.transports import Fault, FaultyTransport, MemoryNetwork, Transport
from paceline.errors import ConnectionLost, Refused, TimedOut


class Counter:
    """Counts its calls; each takes ten seconds."""

    def __init__(self):
        self.num_calls = 0
        self.num_cancelled = 0
        self.num_ended = 0

    async def work(self, word: str) -> str:
        self.num_calls += 1
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        return word

    async def steps(self, n: int):
        self.num_calls += 1
        try:
            for step in range(n):
                await asyncio.sleep(1)
                yield step
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_ended += 1


class Plan:
    """Applies a fault to the first `times` requests whose path starts so."""

    def __init__(self, fault, path, times=1):
        self.fault, self.path, self.times = fault, path, times
        self.num_seen = 0

    def __call__(self, request):
        if not request.path.startswith(self.path):
            return Fault.NONE
        self.num_seen += 1
        return self.fault if self.num_seen <= self.times else Fault.NONE


class StallingTransport(Transport):
    """Hangs for ever on requests whose path starts so; `inner` carries the rest."""

    def __init__(self, inner, path):
        self.inner, self.path = inner, path

    async def request(self, address, request, *, timeout):
        if request.path.startswith(self.path):
            await asyncio.sleep(timeout)
            raise TimedOut("stalled")
        return await self.inner.request(address, request, timeout=timeout)

    async def reply_host(self, address):
        return await self.inner.reply_host(address)

    async def listen(self, app, host, port, identity=None):
        return await self.inner.listen(app, host, port, identity)


async def duplex(client_wrap=lambda t: t, worker_wrap=lambda t: t, rpc="work", argument="done", **options):
    """Make one duplex call over a network in memory; returns its result and the counter."""
    network, counter = MemoryNetwork(), Counter()
    worker = axon.Worker("pi1")
    worker.service(counter)
    async with worker.serving(port=0, transport=worker_wrap(network.host("worker"))) as address:
        transport = client_wrap(network.host("client"))
        stub = CoroDuplexStub(address.host, rpc, port=address.port, transport=transport, **options)
        result = await stub(argument)
        if isinstance(result, axon.ValueStream):
            result = [item async for item in result]
    return result, counter


def test_result_is_pushed(run_virtual):
    polls = Plan(Fault.LOSE_REQUEST, "/calls/", times=1000)  # were it fetched, it would fail
    result, counter = run_virtual(duplex(lambda t: FaultyTransport(t, plan=polls), patience_seconds=1000))
    assert (result, counter.num_calls) == ("done", 1)


def test_items_come_when_they_are_made(run_virtual):
    async def main():
        network, loop = MemoryNetwork(), asyncio.get_running_loop()
        worker = axon.Worker("pi1")
        worker.service(Counter())
        async with worker.serving(port=0, transport=network.host("worker")) as address:
            where = {"port": address.port, "transport": network.host("client")}
            for stub in (CoroSimplexStub, CoroDuplexStub):
                start = loop.time()
                stream = await stub(address.host, "steps", **where)(3)
                assert [round(loop.time() - start) async for _ in stream] == [1, 2, 3]

    run_virtual(main())


def test_lost_confirmation_of_the_call(run_virtual):
    plan = Plan(Fault.LOSE_REPLY, "/rpc/", times=3)
    result, counter = run_virtual(duplex(lambda t: FaultyTransport(t, plan=plan)))
    assert (result, counter.num_calls, plan.num_seen) == ("done", 1, 4)


def test_lost_request(run_virtual):
    plan = Plan(Fault.LOSE_REQUEST, "/rpc/", times=3)
    result, counter = run_virtual(duplex(lambda t: FaultyTransport(t, plan=plan)))
    assert (result, counter.num_calls, plan.num_seen) == ("done", 1, 4)


def test_lost_acknowledgement_of_the_result(run_virtual):
    plan = Plan(Fault.LOSE_REPLY, "/results/", times=3)
    result, counter = run_virtual(duplex(worker_wrap=lambda t: FaultyTransport(t, plan=plan)))
    assert (result, counter.num_calls) == ("done", 1)


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
def test_stream_with_losses_comes_whole_and_in_order(run_virtual, fault):
    every_other = iter(range(1000))

    def plan(request):
        return fault if request.path.startswith("/results/") and next(every_other) % 2 else Fault.NONE

    result, counter = run_virtual(duplex(worker_wrap=lambda t: FaultyTransport(t, plan=plan), rpc="steps", argument=20))
    assert (result, counter.num_calls) == (list(range(20)), 1)


@pytest.mark.parametrize(("rpc", "argument", "expected"), [("work", "done", "done"), ("steps", 5, [0, 1, 2, 3, 4])])
def test_stalled_callback_is_fetched(run_virtual, rpc, argument, expected):
    wrap = lambda t: StallingTransport(t, "/results/")  # noqa: E731
    result, counter = run_virtual(duplex(worker_wrap=wrap, rpc=rpc, argument=argument))
    assert (result, counter.num_calls) == (expected, 1)


@pytest.mark.parametrize(("rpc", "argument", "expected"), [("work", "done", "done"), ("steps", 5, [0, 1, 2, 3, 4])])
def test_client_that_cannot_be_reached_polls(run_virtual, rpc, argument, expected):
    plan = Plan(Fault.LOSE_REQUEST, "/results/", times=10**6)
    for options in ({"reachable": False}, {}):
        result, counter = run_virtual(
            duplex(worker_wrap=lambda t: FaultyTransport(t, plan=plan), rpc=rpc, argument=argument, **options)
        )
        assert (result, counter.num_calls) == (expected, 1)


def test_cut_link_is_borne_for_a_while(run_virtual):
    async def main(cut_seconds):
        links = []

        def wrap(transport):
            links.append(FaultyTransport(transport))
            return links[-1]

        call = asyncio.ensure_future(duplex(wrap, wrap, patience_seconds=30))
        await asyncio.sleep(3)
        for link in links:
            link.cut()
        await asyncio.sleep(cut_seconds)
        for link in links:
            link.mend()
        return await call

    result, counter = run_virtual(main(20))
    assert (result, counter.num_calls) == ("done", 1)
    with pytest.raises(ConnectionLost, match="was lost while it ran work"):
        run_virtual(main(100))


def test_timeout_stops_the_far_function(run_virtual):
    async def main():
        network, counter = MemoryNetwork(), Counter()
        worker = axon.Worker("pi1")
        worker.service(counter)
        async with worker.serving(port=0, transport=network.host("worker")) as address:
            where = {"port": address.port, "transport": network.host("client"), "timeout_seconds": 5}
            with pytest.raises(TimedOut, match="did not answer work within 5 s"):
                await CoroDuplexStub(address.host, "work", **where)("late")
            stream = await CoroDuplexStub(address.host, "steps", **where)(10**6)
            assert await anext(stream) == 0
            await stream.aclose()
            call = asyncio.ensure_future(CoroDuplexStub(address.host, "work", **where)("cancelled"))
            await asyncio.sleep(2)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await asyncio.sleep(1)
        return counter

    assert run_virtual(main()).num_cancelled == 3


def test_one_id_runs_once(run_virtual):
    async def main():
        network, counter = MemoryNetwork(), Counter()
        worker = axon.Worker("pi1")
        worker.service(counter)
        async with worker.serving(port=0, transport=network.host("worker")) as address:
            remote = axon.connect(str(address), transport=network.host("client"), duplex=True)
            bound = remote.work.bind("once")
            first, second = await asyncio.gather(bound.start("id-1"), bound.start("id-1"), return_exceptions=True)
            assert "once" in (first, second)
            assert counter.num_calls == 1
            simplex = CoroSimplexStub(address.host, "work", port=address.port, transport=network.host("client"))
            assert await simplex._call(("x",), {}, "id-2") == "x"
            with pytest.raises(Refused, match="not run twice"):
                await simplex._call(("x",), {}, "id-2")
            assert counter.num_calls == 2

    run_virtual(main())


def test_reattach_after_a_restart(run_virtual):
    async def main():
        network, counter = MemoryNetwork(), Counter()
        worker = axon.Worker("pi1")
        worker.service(counter)
        async with worker.serving(port=0, transport=network.host("worker")) as address:
            first_life = FaultyTransport(network.host("client"))
            remote = axon.connect(str(address), transport=first_life, duplex=True)
            call = asyncio.ensure_future(remote.work.bind("kept").start("round-7"))
            await asyncio.sleep(3)
            first_life.cut()  # the process is gone: it can neither send nor answer
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            second_life = axon.connect(str(address), transport=network.host("client"), duplex=True)
            assert await second_life._caller.reattach("round-7") == "kept"
            assert counter.num_calls == 1
            with pytest.raises(Refused, match="does not know call round-7"):
                await second_life._caller.reattach("round-7")

    run_virtual(main())


def test_worker_that_restarted_has_lost_the_call(run_virtual):
    async def main():
        network = MemoryNetwork()
        worker = axon.Worker("pi1")
        worker.service(Counter())
        settings = {"port": 1, "transport": network.host("worker"), "grace_seconds": 0}
        async with worker.serving(**settings) as address:
            stub = CoroDuplexStub(address.host, "work", port=1, transport=network.host("client"))
            call = asyncio.ensure_future(stub("lost"))
            await asyncio.sleep(3)
        async with worker.serving(**settings):
            with pytest.raises(ConnectionLost, match="does not know call"):
                await call

    run_virtual(main())


async def _fast() -> str:
    return "done"


async def _nothing():
    return
    yield


def test_fast_call_whose_confirmation_is_lost(run_virtual):
    async def main():
        network = MemoryNetwork()
        worker = axon.Worker("pi1")
        worker.rpc(name="fast")(_fast)
        worker.rpc(name="nothing")(_nothing)
        async with worker.serving(port=0, transport=network.host("worker")) as address:
            plan = Plan(Fault.LOSE_REPLY, "/rpc/", times=1)
            where = {"port": address.port, "transport": FaultyTransport(network.host("client"), plan=plan)}
            assert await CoroDuplexStub(address.host, "fast", **where)() == "done"
            plan.num_seen = 0
            assert [item async for item in await CoroDuplexStub(address.host, "nothing", **where)()] == []

    run_virtual(main())


@pytest.mark.parametrize("path", ["/rpc/", "/calls/"])
def test_worker_that_falls_silent_is_noticed(run_virtual, path):
    """It neither answers nor refuses, as a machine without power."""

    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises((ConnectionLost, TimedOut)):
            await duplex(
                lambda t: StallingTransport(t, path), lambda t: StallingTransport(t, "/results/"), patience_seconds=20
            )
        return loop.time() - start

    assert run_virtual(main()) < 120


@pytest.mark.parametrize("reachable", [True, False])
def test_stream_does_not_run_ahead_of_its_consumer(run_virtual, reachable):
    async def main():
        network, made = MemoryNetwork(), []
        worker = axon.Worker("pi1")

        @worker.rpc()
        async def items(n: int):
            for number in range(n):
                made.append(number)
                yield number

        async with worker.serving(port=0, transport=network.host("worker"), grace_seconds=0) as address:
            where = {"port": address.port, "transport": network.host("client"), "reachable": reachable}
            stream = await CoroDuplexStub(address.host, "items", **where)(2000)
            assert await anext(stream) == 0
            await asyncio.sleep(200)
            assert len(made) < 200
            assert [item async for item in stream] == list(range(1, 2000))

    run_virtual(main())


def test_abandoned_stream_ends_by_itself(run_virtual):
    async def main():
        network, ended = MemoryNetwork(), asyncio.Event()
        worker = axon.Worker("pi1")

        @worker.rpc()
        async def endless():
            try:
                while True:
                    yield 1
            finally:
                ended.set()

        async with worker.serving(port=0, transport=network.host("worker")) as address:
            link = FaultyTransport(network.host("client"))
            stub = CoroDuplexStub(address.host, "endless", port=address.port, transport=link, reachable=False)
            stream = await stub()
            assert await anext(stream) == 1
            link.cut()
            await asyncio.wait_for(ended.wait(), 2000)
            await stream.aclose()

    run_virtual(main())


@pytest.mark.parametrize("stub", [CoroSimplexStub, CoroDuplexStub])
def test_closing_a_stream_before_its_first_item(run_virtual, stub):
    async def main():
        network, counter = MemoryNetwork(), Counter()
        worker = axon.Worker("pi1")
        worker.service(counter)
        async with worker.serving(port=0, transport=network.host("worker")) as address:
            stream = await stub(address.host, "steps", port=address.port, transport=network.host("client"))(10**6)
            await asyncio.sleep(5)
            await stream.aclose()
            await asyncio.sleep(5)
            assert counter.num_calls == counter.num_ended == 1

    run_virtual(main())


@pytest.mark.parametrize("stub", [CoroSimplexStub, CoroDuplexStub])
@pytest.mark.parametrize("how", ["stopped", "cut"])
def test_open_stream_breaks_with_its_worker_or_link(run_virtual, stub, how):
    async def main():
        network, counter = MemoryNetwork(), Counter()
        link = FaultyTransport(network.host("client"))
        worker = axon.Worker("pi1")
        worker.service(counter)
        async with contextlib.AsyncExitStack() as stack:
            serving = worker.serving(port=0, transport=network.host("worker"), grace_seconds=0)
            address = await stack.enter_async_context(serving)
            where = {"port": address.port, "transport": link, "patience_seconds": 5}
            stream = await stub(address.host, "steps", **where)(10**6)
            assert await anext(stream) == 0
            if how == "stopped":
                await stack.aclose()
            link.cut()
            start = asyncio.get_running_loop().time()
            with pytest.raises(ConnectionLost):
                [_ async for _ in stream]
            assert asyncio.get_running_loop().time() - start < 60
            await asyncio.sleep(1000)
            assert counter.num_ended == 1

    run_virtual(main())
