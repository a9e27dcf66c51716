"""In a DAB run nothing about the hardware leaves a learner, nor what it draws: every byte it sends is recorded."""

import asyncio
import contextlib
import functools
import re
import urllib.parse

import httptools
import pytest
import torch

import paceline
from paceline.axon import loops, wire
from paceline.axon.keys import DeviceKey
from paceline.devices.energy import PowerModel, ProcessMeter
from paceline.devices.machines import LiveMachine
from paceline.topologies.access import HostAccess
from paceline.topologies.base import Contact, DeviceOptions, Environment, Node, serving
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent
from paceline.topologies.parallel.learner import Learner
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import of, small_job

# Arguments of each call. A session is the orchestrator's own word, given back to it.
ALLOWED_ARGUMENTS = {
    "challenge": (),
    "join": ("name", "version", "price", "proof"),
    "sample": ("session", "benchmark shards", "with parameters"),
    "discard": ("session", "zeros"),
    "next_round": ("session", "round", "state"),
    "take": ("session", "round", "shards", "own samples"),
    "update": ("session", "round", "parameters", "samples"),
}


KEY = DeviceKey.generate()


def is_proof(value):
    """Whether it is a public key, what the host made up, and a signature; a key says nothing of a device."""
    is_like = re.fullmatch(r"[0-9a-f]{32}-[0-9.]+-[0-9a-f]{64}", value["challenge"]) and len(value["signature"]) == 64
    return value.keys() == {"key", "challenge", "signature"} and value["key"] == KEY.public and is_like


def allowed_values(terms):
    """Return what each argument may be, as a check."""
    vectors = {"float32": (torch.float32, (terms.model_bytes // 4,))}
    return {
        "name": lambda value: value in ("a", "b"),  # that its user gave it
        "version": lambda value: value == paceline.__version__,
        "price": lambda value: value == 0.0,  # nobody set one
        "proof": is_proof,
        "state": lambda value: value is None,
        "session": lambda value: re.fullmatch("[0-9a-f]{32}", value),
        "benchmark shards": lambda value: value in (1, 2),  # as the job says, on every device
        "with parameters": lambda value: type(value) is bool,
        "zeros": lambda value: value in (bytes(terms.model_bytes // 8), bytes(terms.model_bytes)),
        "round": lambda value: type(value) is int and value in (0, 1, 2),
        "shards": lambda value: type(value) is int and 1 <= value <= terms.num_shards,
        "own samples": lambda value: value is None,  # data is served
        "samples": lambda value: type(value) is int and 1 <= value <= terms.num_shards * terms.shard_samples,
        "parameters": lambda value: {name: (one.dtype, one.shape) for name, one in value.items()} == vectors,
    }


ALLOWED_HEADERS = {"axon-call", "host", "content-type", "content-length", "authorization"}


class Recorder:
    """Passes bytes on between a learner and an orchestrator, and keeps what the learner sends."""

    def __init__(self, port):
        self._port = port
        self.streams = []

    async def pass_on(self, reader, writer):
        sent = bytearray()
        self.streams.append(sent)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(pump(reader, far_writer, sent), pump(far_reader, writer, bytearray()))


async def pump(reader, writer, kept):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            kept += data
            writer.write(data)
            await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


class Requests:
    """The HTTP requests in a stream of bytes, every byte of it."""

    def __init__(self, stream):
        self.found = []
        parser = httptools.HttpRequestParser(self)
        self._method = parser.get_method
        parser.feed_data(bytes(stream))

    def on_message_begin(self):
        self.url, self.headers, self.body = b"", {}, b""

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.found.append((self._method().decode(), self.url.decode(), self.headers, self.body))


def make_learner(url, name, events, max_shards=None):
    """Make a learner that meters what it uses."""
    machine = LiveMachine(make_meter=functools.partial(ProcessMeter, PowerModel(busy_watts=4.0)))
    about = {"trust": {"token": "S3cret"}, "emit": events.append, "options": DeviceOptions(max_shards=max_shards)}
    return Learner(Node(name=name, key=KEY, contacts=[Contact(url)], machine=machine, **about))


async def recorded_run(job):
    plan, events = JobPlan(prepare_job(job)), []
    host = plan.host(Environment(access=HostAccess({"learner": "S3cret"})))
    async with serving(host, plan, "host", port=0) as address:
        recorder = Recorder(urllib.parse.urlsplit(address).port)
        async with await asyncio.start_server(recorder.pass_on, "127.0.0.1", 0) as proxy:
            url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            learners = [make_learner(url, "a", events), make_learner(url, "b", events, 3)]
            running = [asyncio.ensure_future(learner.run()) for learner in learners]
            await host.run(address)
            await asyncio.gather(*running)
    return plan.prepared, [request for stream in recorder.streams for request in Requests(stream).found], events


@pytest.fixture(scope="module")
def recording():
    # max_shards is a wish about the hardware, too: it must not be sent, either.
    job = small_job("dab", rounds=2, deadline_seconds=0.5, min_learners=2, benchmark_shards=2)
    loop = loops.new_event_loop()
    try:
        return loop.run_until_complete(recorded_run(job))
    finally:
        loops.shut_down(loop)


def calls(recording):
    """Name and arguments of each call."""
    for method, url, _, body in recording[1]:
        if method == "POST":
            args, kwargs = wire.decode(memoryview(bytearray(body)))[1]
            assert kwargs == {}
            yield url.removeprefix("/rpc/"), args


def test_only_calls_that_are_allowed_are_made(recording):
    listing = {(method, url) for method, url, _, body in recording[1] if method != "POST" and not body}
    assert listing == {("GET", "/")}
    assert {name for name, _ in calls(recording)} == set(ALLOWED_ARGUMENTS)


def test_headers_reveal_nothing(recording):
    for method, _, headers, body in recording[1]:
        assert set(headers) <= ALLOWED_HEADERS
        assert headers["authorization"] == "Bearer S3cret"
        assert headers.get("content-type") == ("application/x-axon" if method == "POST" else None)
        assert int(headers.get("content-length", 0)) == len(body)


def test_calls_carry_what_is_allowed_and_nothing_else(recording):
    allowed = allowed_values(recording[0].terms)
    for name, args in calls(recording):
        for argument, value in zip(ALLOWED_ARGUMENTS[name], args, strict=True):
            assert allowed[argument](value), (name, argument)
    updates = [args[1] for name, args in calls(recording) if name == "update"]
    assert sorted(updates) == [1, 1, 2, 2]  # all rounds were recorded


def test_what_a_round_uses_is_recorded_on_the_device_and_its_bytes_are_those_sent(recording):
    spent = of(RoundSpent, recording[2])
    assert len(spent) == 4
    in_rounds = [body for _, url, _, body in recording[1] if url in ("/rpc/take", "/rpc/update")]
    assert sum(event.bytes_sent for event in spent) == sum(map(len, in_rounds))
    assert all(event.bytes_received > event.bytes_sent for event in spent)
    assert all(event.joules == pytest.approx(4 * event.cpu_seconds) for event in spent)
    assert sum(event.cpu_seconds for event in spent) > 0
    (power,) = {str(event.power) for event in of(DeviceMeasured, recording[2])}
    assert "'busy_watts': 4.0" in power
