"""Duplex calls survive stalls, losses and restarts, and no call runs twice."""

import asyncio
import contextlib
import functools
import itertools

import pytest

from paceline import axon
from paceline.axon.client import CoroDuplexStub, CoroSimplexStub
from paceline.axon.transports import Fault, FaultyTransport, MemoryNetwork, TransportWrapper
from paceline.axon.worker.given import MAX_REPLY_BYTES
from paceline.errors import ConnectionLost, Refused, TimedOut
from paceline.fleets import virtual_loop

RESULTS = pytest.mark.parametrize(
    ("rpc", "argument", "expected"), [("work", "done", "done"), ("steps", 5, [0, 1, 2, 3, 4])]
)


class Counter:
    """Counts its calls; `work` takes ten seconds."""

    def __init__(self):
        self.num_calls = self.num_cancelled = self.num_ended = 0

    @contextlib.contextmanager
    def counting(self):
        self.num_calls += 1
        try:
            yield
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        finally:
            self.num_ended += 1

    async def work(self, word: str) -> str:
        with self.counting():
            await asyncio.sleep(10)
            return word

    async def steps(self, n: int):
        with self.counting():
            for step in range(n):
                await asyncio.sleep(1)
                yield step

    async def fast(self) -> str:
        return "done"

    async def nothing(self):
        return
        yield


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


class StallingTransport(TransportWrapper):
    """Hangs for ever on requests whose path starts so."""

    def __init__(self, inner, path):
        super().__init__(inner)
        self.path = path

    async def request(self, address, request, *, timeout):
        if request.path.startswith(self.path):
            await asyncio.sleep(timeout)
            raise TimedOut("stalled")
        return await super().request(address, request, timeout=timeout)


class Scene:
    """A worker that serves a counter on a network in memory, and stubs of it."""

    def __init__(self, worker_wrap=lambda transport: transport):
        self.network, self.counter, self.worker = MemoryNetwork(), Counter(), axon.Worker("pi1")
        self.worker.service(self.counter)
        self.transport = worker_wrap(self.network.host("worker"))

    def serving(self, **settings):
        return self.worker.serving(**{"port": 1, "transport": self.transport, **settings})

    def stub(self, rpc, kind=CoroDuplexStub, transport=None, **options):
        return kind("worker", rpc, port=1, transport=transport or self.network.host("client"), **options)

    def remote(self, transport=None):
        transport = transport or self.network.host("client")
        return axon.connect("http://worker:1", transport=transport, duplex=True)


def on_virtual_time(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        return virtual_loop.run(test(*args, **kwargs))

    return run


async def call(client_wrap=lambda t: t, worker_wrap=lambda t: t, rpc="work", argument="done", **options):
    """Make one duplex call; returns its result and how many calls the worker has seen."""
    scene = Scene(worker_wrap)
    async with scene.serving():
        result = await scene.stub(rpc, transport=client_wrap(scene.network.host("client")), **options)(argument)
        if isinstance(result, axon.ValueStream):
            result = [item async for item in result]
    return result, scene.counter.num_calls


duplex = on_virtual_time(call)


def test_result_is_pushed():
    polls = Plan(Fault.LOSE_REQUEST, "/calls/", times=1000)  # were it fetched, it would fail
    assert duplex(lambda t: FaultyTransport(t, plan=polls), patience_seconds=1000) == ("done", 1)


@pytest.mark.parametrize("kind", [CoroSimplexStub, CoroDuplexStub])
@on_virtual_time
async def test_items_come_when_they_are_made(kind):
    scene, loop = Scene(), asyncio.get_running_loop()
    async with scene.serving():
        start = loop.time()
        stream = await scene.stub("steps", kind)(3)
        assert [round(loop.time() - start) async for _ in stream] == [1, 2, 3]


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
def test_lost_request_or_confirmation_of_the_call(fault):
    plan = Plan(fault, "/rpc/", times=3)
    assert duplex(lambda t: FaultyTransport(t, plan=plan)) == ("done", 1)
    assert plan.num_seen == 4


@RESULTS
@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
def test_lost_results_and_acknowledgements_come_whole_and_in_order(rpc, argument, expected, fault):
    is_lost = itertools.cycle([True, True, False])

    def plan(request):
        return fault if request.path.startswith("/results/") and next(is_lost) else Fault.NONE

    result = duplex(worker_wrap=lambda t: FaultyTransport(t, plan=plan), rpc=rpc, argument=argument)
    assert result == (expected, 1)


@RESULTS
def test_stalled_callback_is_fetched(rpc, argument, expected):
    result = duplex(worker_wrap=lambda t: StallingTransport(t, "/results/"), rpc=rpc, argument=argument)
    assert result == (expected, 1)


@RESULTS
@pytest.mark.parametrize("options", [{"reachable": False}, {}])
def test_client_that_cannot_be_reached_polls(rpc, argument, expected, options):
    plan = Plan(Fault.LOSE_REQUEST, "/results/", times=10**6)
    result = duplex(worker_wrap=lambda t: FaultyTransport(t, plan=plan), rpc=rpc, argument=argument, **options)
    assert result == (expected, 1)


def test_cut_link_is_borne_for_a_while():
    @on_virtual_time
    async def cut_for(seconds):
        links = []

        def wrap(transport):
            links.append(FaultyTransport(transport))
            return links[-1]

        result = asyncio.ensure_future(call(wrap, wrap, patience_seconds=30))
        await asyncio.sleep(3)
        for link in links:
            link.cut()
        await asyncio.sleep(seconds)
        for link in links:
            link.mend()
        return await result

    assert cut_for(20) == ("done", 1)
    with pytest.raises(ConnectionLost, match="was lost while it ran work"):
        cut_for(100)


@on_virtual_time
async def test_timeout_stops_the_far_function():
    scene = Scene()
    async with scene.serving():
        with pytest.raises(TimedOut, match="did not answer work within 5 s"):
            await scene.stub("work", timeout_seconds=5)("late")
        stream = await scene.stub("steps")(10**6)
        assert await anext(stream) == 0
        await stream.aclose()
        cancelled = asyncio.ensure_future(scene.stub("work")("cancelled"))
        await asyncio.sleep(2)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        await asyncio.sleep(1)
    assert scene.counter.num_cancelled == 3


@on_virtual_time
async def test_one_id_runs_once():
    scene = Scene()
    async with scene.serving():
        bound = scene.remote().work.bind("once")
        results = await asyncio.gather(bound.start("id-1"), bound.start("id-1"), return_exceptions=True)
        assert "once" in results
        assert scene.counter.num_calls == 1
        simplex = scene.stub("work", CoroSimplexStub)
        assert [await simplex._call(("x",), {}, "id-2") for _ in range(2)] == ["x", "x"]  # the answer may be lost
        long = "y" * (MAX_REPLY_BYTES + 1)
        await simplex._call((long,), {}, "id-3")
        with pytest.raises(Refused, match="not run twice"):
            await simplex._call((long,), {}, "id-3")
        assert scene.counter.num_calls == 3


@on_virtual_time
async def test_reattach_after_a_restart():
    scene = Scene()
    async with scene.serving():
        first_life = FaultyTransport(scene.network.host("client"))
        kept = asyncio.ensure_future(scene.remote(first_life).work.bind("kept").start("round-7"))
        await asyncio.sleep(3)
        first_life.cut()  # the process is gone: it can neither send nor answer
        kept.cancel()
        await asyncio.gather(kept, return_exceptions=True)
        second_life = scene.remote()
        assert await second_life._caller.reattach("round-7") == "kept"
        assert scene.counter.num_calls == 1
        with pytest.raises(Refused, match="does not know call round-7"):
            await second_life._caller.reattach("round-7")


@on_virtual_time
async def test_worker_that_restarted_has_lost_the_call():
    scene = Scene()
    async with scene.serving(grace_seconds=0):
        lost = asyncio.ensure_future(scene.stub("work")("lost"))
        await asyncio.sleep(3)
    async with scene.serving(grace_seconds=0):
        with pytest.raises(ConnectionLost, match="does not know call"):
            await lost


@on_virtual_time
async def test_fast_call_whose_confirmation_is_lost():
    scene = Scene()
    async with scene.serving():
        plan = Plan(Fault.LOSE_REPLY, "/rpc/", times=1)
        link = FaultyTransport(scene.network.host("client"), plan=plan)
        assert await scene.stub("fast", transport=link)() == "done"
        plan.num_seen = 0
        assert [item async for item in await scene.stub("nothing", transport=link)()] == []


@pytest.mark.parametrize("path", ["/rpc/", "/calls/"])
@on_virtual_time
async def test_worker_that_falls_silent_is_noticed(path):
    """It neither answers nor refuses, as a machine without power."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises((ConnectionLost, TimedOut)):
        await call(lambda t: StallingTransport(t, path), lambda t: StallingTransport(t, "/results/"))
    assert loop.time() - start < 120


@pytest.mark.parametrize("reachable", [True, False])
@on_virtual_time
async def test_stream_does_not_run_ahead_of_its_consumer(reachable):
    scene, made = Scene(), []

    @scene.worker.rpc()
    async def items(n: int):
        for number in range(n):
            made.append(number)
            yield number

    async with scene.serving(grace_seconds=0):
        stream = await scene.stub("items", reachable=reachable)(2000)
        assert await anext(stream) == 0
        await asyncio.sleep(200)
        assert len(made) < 200
        assert [item async for item in stream] == list(range(1, 2000))


@on_virtual_time
async def test_abandoned_stream_ends_by_itself():
    scene, ended = Scene(), asyncio.Event()

    @scene.worker.rpc()
    async def endless():
        try:
            while True:
                yield 1
        finally:
            ended.set()

    async with scene.serving():
        link = FaultyTransport(scene.network.host("client"))
        stream = await scene.stub("endless", transport=link, reachable=False)()
        assert await anext(stream) == 1
        link.cut()
        await asyncio.wait_for(ended.wait(), 2000)
        await stream.aclose()


@pytest.mark.parametrize("kind", [CoroSimplexStub, CoroDuplexStub])
@on_virtual_time
async def test_closing_a_stream_before_its_first_item(kind):
    scene = Scene()
    async with scene.serving():
        stream = await scene.stub("steps", kind)(10**6)
        await asyncio.sleep(5)
        await stream.aclose()
        await asyncio.sleep(5)
        assert scene.counter.num_calls == scene.counter.num_ended == 1


@pytest.mark.parametrize("kind", [CoroSimplexStub, CoroDuplexStub])
@pytest.mark.parametrize("how", ["stopped", "cut"])
@on_virtual_time
async def test_open_stream_breaks_with_its_worker_or_link(kind, how):
    scene, loop = Scene(), asyncio.get_running_loop()
    link = FaultyTransport(scene.network.host("client"))
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(scene.serving(grace_seconds=0))
        stream = await scene.stub("steps", kind, link, patience_seconds=5)(10**6)
        assert await anext(stream) == 0
        if how == "stopped":
            await stack.aclose()
        link.cut()
        start = loop.time()
        with pytest.raises(ConnectionLost):
            [_ async for _ in stream]
        assert loop.time() - start < 60
        await asyncio.sleep(1000)
        assert scene.counter.num_ended == 1
