"""What a worker shows of itself: to Prometheus, to those who let it in, and to nobody more than they may see."""

import asyncio
import functools
import math
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from paceline.axon import Worker, connect
from paceline.axon.messages import Request
from paceline.axon.metrics import BOUNDS_SECONDS, Durations, Metric, Sample, fitting, render
from paceline.axon.transports import HttpTransport
from paceline.errors import RemoteError


def on_a_loop(test):
    @functools.wraps(test)
    def run():
        asyncio.run(test())

    return run


def parsed(text):
    """The metrics in a text, by name, each as values by labels."""
    return {
        sample.name: {
            **{tuple(sorted(one.labels.items())): one.value for one in family.samples if one.name == sample.name}
        }
        for family in parse(text)
        for sample in family.samples
    }


async def get(address, path, token=None, method="GET"):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    transport = HttpTransport()
    return await transport.request(address, Request(method, path, {}, {"host": "127.0.0.1", **headers}), timeout=5)


async def metrics_of(address, token=None):
    reply = await get(address, "/metrics", token)
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(bytes(reply.content).decode())


def labels(**given):
    return tuple(sorted(given.items()))


def test_the_text_is_what_prometheus_reads():
    odd = 'a "b"\\\n😀'
    text = render(
        [
            Metric("one_total", "counter", 'Some\nhelp \\ "here"', [Sample(3, {"name": odd}), Sample(math.inf)]),
            Metric("two", "gauge", "None of these.", []),
            Metric("three", "gauge", "Not a number.", [Sample(math.nan)]),
        ]
    ).decode()
    one, three = parse(text)
    assert (one.name, one.type, one.documentation) == ("one", "counter", 'Some\nhelp \\ "here"')
    assert [(sample.labels, sample.value) for sample in one.samples] == [({"name": odd}, 3), ({}, math.inf)]
    assert math.isnan(three.samples[0].value)


def test_durations_are_counted_in_the_bucket_whose_bound_they_do_not_exceed():
    durations = Durations()
    for seconds in (0.0, BOUNDS_SECONDS[0], 0.002, 1e6):
        durations.add(seconds)
    text = render([Metric("took", "histogram", "Time.", list(durations.samples({"call": "add"})))]).decode()
    found = parsed(text)
    by_bound = {float(dict(key)["le"]): value for key, value in found["took_bucket"].items()}
    assert (by_bound[0.001], by_bound[0.0025], by_bound[100.0], by_bound[math.inf]) == (2, 3, 3, 4)
    assert found["took_count"] == {labels(call="add"): 4}
    assert found["took_sum"] == {labels(call="add"): pytest.approx(1e6 + 0.003)}


def test_names_are_made_to_fit():
    assert fitting("recall@5 é") == "recall_5__"


def worker():
    made = Worker("pi")

    @made.rpc(executor="loop")
    def add(a: int, b: int) -> int:
        return a + b

    @made.rpc()
    def fail() -> None:
        raise ValueError("no")

    return made


@on_a_loop
async def test_calls_are_counted_by_function_and_outcome():
    async with worker().serving(port=0) as address:
        pi = connect(str(address))
        await asyncio.gather(*(pi.add.coro(1, 2) for _ in range(3)))
        with pytest.raises(RemoteError):
            await pi.fail.coro()
        assert (await get(address, "/nothing")).status == 404
        found = await metrics_of(address)
        assert found["paceline_call_seconds_count"] == {
            labels(call="add", outcome="done"): 3,
            labels(call="fail", outcome="raised"): 1,
        }
        assert found["paceline_refused_requests_total"] == {labels(status="404"): 1}
        assert found["paceline_calls_running"] == {labels(call="add"): 0, labels(call="fail"): 0}
        assert found["paceline_request_bytes_total"][()] > 0
        assert found["paceline_reply_bytes_total"][()] > found["paceline_request_bytes_total"][()]
        assert found["paceline_connections"][labels(state="known")] >= 1
        assert found["process_resident_memory_bytes"][()] > 1e6


@on_a_loop
async def test_a_running_call_is_seen():
    made, began, let_go = Worker("pi"), asyncio.Event(), asyncio.Event()

    @made.rpc()
    async def wait() -> None:
        began.set()
        await let_go.wait()

    async with made.serving(port=0) as address:
        call = asyncio.ensure_future(connect(str(address)).wait.coro())
        await began.wait()
        assert (await metrics_of(address))["paceline_calls_running"] == {labels(call="wait"): 1}
        let_go.set()
        await call


@on_a_loop
async def test_metrics_need_the_token_and_health_does_not():
    async with worker().serving(port=0, token="S3cret") as address:
        assert (await get(address, "/metrics")).status == 401
        assert (await get(address, "/metrics", "wrong")).status == 401
        assert (await metrics_of(address, "S3cret"))["paceline_refused_requests_total"] == {labels(status="401"): 2}
        reply = await get(address, "/healthz")
        assert (reply.status, bytes(reply.content)) == (200, b'{\n  "status": "ok"\n}\n')


@on_a_loop
async def test_health_makes_no_stranger_known():
    async with worker().serving(port=0, token="S3cret") as address:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.read()  # to the end: the connection is closed
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection: close" in answer.lower()


@on_a_loop
async def test_a_worker_that_drains_is_not_well():
    made = worker()
    made.monitoring.is_draining = lambda: True
    async with made.serving(port=0) as address:
        reply = await get(address, "/healthz")
        assert (reply.status, bytes(reply.content)) == (503, b'{\n  "status": "draining"\n}\n')


@on_a_loop
async def test_a_worker_that_stops_is_not_well_while_calls_end():
    made, began, let_go = Worker("pi"), asyncio.Event(), asyncio.Event()

    @made.rpc()
    async def wait() -> None:
        began.set()
        await let_go.wait()

    serving = made.serving(port=0)
    address = await serving.__aenter__()
    call = asyncio.ensure_future(connect(str(address)).wait.coro())
    await began.wait()
    stopping = asyncio.ensure_future(serving.__aexit__(None, None, None))
    await asyncio.sleep(0)
    assert (await get(address, "/healthz")).status == 503
    let_go.set()
    await asyncio.gather(call, stopping)


@on_a_loop
async def test_what_cannot_be_read_is_counted():
    async with worker().serving(port=0) as address:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"NONSENSE\r\n\r\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        assert (await metrics_of(address))["paceline_unread_requests_total"] == {(): 1}


@on_a_loop
async def test_figures_of_what_a_worker_is_part_of_come_after_its_own():
    made = worker()
    made.monitoring.sources.append(lambda: [Metric("rounds", "gauge", "Rounds.", [Sample(7)])])
    async with made.serving(port=0) as address:
        assert (await metrics_of(address))["rounds"] == {(): 7}


@on_a_loop
async def test_every_metric_is_described():
    page = (Path(__file__).parents[2] / "docs/how-to/monitor.md").read_text()
    described = set(re.findall(r"^\| `(paceline_[a-z_]+|process_[a-z_]+)`", page, re.M))
    made = worker()
    async with made.serving(port=0) as address:
        await connect(str(address)).add.coro(1, 2)
        await get(address, "/nothing")
        reply = await get(address, "/metrics")
    shown = set(re.findall(r"^# TYPE (\S+) ", bytes(reply.content).decode(), re.M))
    assert shown <= described
    of_runs = {"paceline_events_total", "paceline_run_info", "paceline_devices", "paceline_tracker_waiting"}
    assert described - shown == of_runs
