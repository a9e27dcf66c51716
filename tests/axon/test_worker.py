"""Workers: what they offer and where it runs, how they stop, and what they tell people and curl."""

import asyncio
import json
import os
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from enum import Enum

import msgspec
import numpy as np
import pytest
import torch

from paceline import axon
from paceline.axon.client import SyncSimplexStub
from paceline.errors import ConfigError, Refused, RemoteError, Unreachable


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    colour: Colour = Colour.RED


class Box(msgspec.Struct):
    corner: Point
    weights: torch.Tensor


def square(n: int) -> int:
    """A function at the top of a module, as a process needs it."""
    if n < 0:
        raise ValueError("negative")
    return n * n


def squares(n: int):
    for number in range(n):
        yield number * number


def process_id() -> int:
    return os.getpid()


def spin() -> None:
    while True:
        pass


def die() -> None:
    os._exit(3)


@pytest.fixture
def worker():
    return axon.Worker("pi1")


def post(address, path, body, **headers):
    request = urllib.request.Request(f"{address}{path}", body.encode() if body is not None else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_arguments_get_their_annotated_types(worker):
    @worker.rpc()
    def describe(point: Point, boxes: list[Box], *rest: Colour, **named: Point) -> list:
        assert isinstance(point, Point)
        assert isinstance(boxes[0], Box)
        return [point.colour is Colour.RED, boxes[0].weights.sum().item(), rest, {k: v.x for k, v in named.items()}]

    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        result = remote.describe(Point(1), [Box(Point(2), torch.ones(3))], Colour.RED, a=Point(5))
        assert result == [True, 3.0, ("red",), {"a": 5}]
        with pytest.raises(Refused, match=r"argument 'point'.*int.*\$\.x"):
            remote.describe({"x": "one"}, [])


def test_unusable_functions_are_refused_at_start(worker):
    def with_unknown_type(a: "Nowhere"):  # noqa: F821
        pass

    async def coroutine():
        pass

    with pytest.raises(ConfigError, match="Nowhere"):
        worker.rpc()(with_unknown_type)
    with pytest.raises(ConfigError, match="executor 'gpu' is unknown; allowed: loop, thread, process"):
        worker.rpc(executor="gpu")(square)
    with pytest.raises(ConfigError, match="runs on the loop"):
        worker.rpc(executor="thread")(coroutine)
    with pytest.raises(ConfigError, match="must be a function at the top of a module"):
        worker.rpc(name="local", executor="process")(lambda: None)
    with pytest.raises(ConfigError, match="made of identifiers"):
        worker.rpc(name="a/b")(square)
    with pytest.raises(ConfigError, match="no public methods"):
        worker.service(object())


def test_service_offers_public_methods(worker):
    class Trainer:
        rate = 0.5

        def step(self, by: int) -> float:
            return self._secret(by)

        def _secret(self, by):
            return by * self.rate

    worker.service(Trainer())
    worker.service(Trainer(), name="second")
    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        assert remote.step(2) == 1.0
        assert remote.second.step(by=3) == 1.5
        assert {rpc.name for rpc in remote.describe_worker().rpcs} == {"step", "second.step"}
        with pytest.raises(Refused, match="no rpc '_secret'"):
            SyncSimplexStub("127.0.0.1", "_secret", port=address.port)(1)


@pytest.mark.parametrize("executor", ["loop", "thread", "process"])
def test_executors_run_and_stream_and_raise(worker, executor):
    worker.rpc(executor=executor)(square)
    worker.rpc(executor=executor)(squares)
    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        assert remote.square(12) == 144
        assert list(remote.squares(5)) == [0, 1, 4, 9, 16]
        with pytest.raises(RemoteError, match="ValueError.*negative") as caught:
            remote.square(-1)
        assert 'raise ValueError("negative")' in caught.value.remote_traceback
        assert remote.square(2) == 4


def test_thread_does_not_block_the_loop(worker):
    release = threading.Event()

    @worker.rpc()
    def wait() -> str:
        release.wait(20)
        return threading.current_thread().name

    @worker.rpc(executor="loop")
    def let_go() -> None:
        release.set()

    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        handle = remote.wait.start()
        remote.let_go()
        assert handle.join(20).startswith("axon-call")


def test_processes_are_others_and_are_killed_by_cancelling(worker):
    worker.rpc(executor="process")(process_id)
    worker.rpc(executor="process")(spin)
    worker.rpc(executor="process")(die)
    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        first = remote.process_id()
        assert first != os.getpid()
        assert remote.process_id() == first
        with pytest.raises(axon.TimedOut):
            remote.spin.options(timeout_seconds=1.5)()
        with pytest.raises(RemoteError, match="the process died while it ran die: exit status 3"):
            remote.die()
        assert remote.process_id() != os.getpid()


def test_cancelled_thread_is_told(worker):
    started, told = threading.Event(), threading.Event()

    @worker.rpc()
    def long() -> None:
        started.set()
        while not axon.worker.is_cancelled():
            time.sleep(0.005)
        told.set()

    with worker.serve(port=0) as address:
        for duplex in (False, True):
            handle = axon.connect(str(address), duplex=duplex).long.start()
            assert started.wait(10)
            assert handle.cancel()
            assert told.wait(10)
            assert handle.done()
            started.clear()
            told.clear()


def test_leaving_a_stream_closes_the_generator(worker):
    closed = threading.Event()

    @worker.rpc()
    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with worker.serve(port=0) as address:
        for duplex in (False, True):
            with axon.connect(str(address), duplex=duplex).endless() as stream:
                assert next(stream) == 1
            assert closed.wait(10)
            closed.clear()


def test_stopping_waits_for_calls_then_cancels(worker):
    cancelled = threading.Event()

    @worker.rpc()
    async def nap(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "rested"

    started = threading.Event()
    worker.rpc(name="started", executor="loop")(started.set)
    with worker.serve(port=0) as address:
        handle = axon.connect(str(address)).nap.start(0.3)
        axon.connect(str(address)).started()
    assert handle.join(10) == "rested"
    with worker.serve(port=0, grace_seconds=0.1) as address:
        handle = axon.connect(str(address)).nap.start(60.0)
        axon.connect(str(address)).started()
        time.sleep(0.1)
    with pytest.raises(axon.ConnectionLost):
        handle.join(10)
    assert cancelled.is_set()
    with pytest.raises(Unreachable):
        axon.connect(str(address)).nap(1.0)


def test_what_cannot_be_returned_is_an_error_of_the_call(worker):
    worker.rpc(name="bad")(lambda: object())
    worker.rpc(name="leave")(lambda: exit(1))
    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        with pytest.raises(RemoteError, match="WireError on pi1: cannot send a builtins.object"):
            remote.bad()
        with pytest.raises(RemoteError, match="SystemExit"):
            remote.leave()


def test_json_for_people(worker):
    worker.rpc()(square)
    worker.rpc()(squares)

    @worker.rpc()
    def norm(array: np.ndarray, scale: torch.Tensor) -> np.ndarray:
        """Scale an array."""
        return array * scale.numpy()

    with worker.serve(port=0) as address:
        status, text = post(address, "/", None)
        assert status == 200
        listing = json.loads(text)
        assert listing["device"] == "pi1"
        assert listing["rpcs"][2] == {
            "name": "norm",
            "signature": "(array: numpy.ndarray, scale: torch.Tensor) -> numpy.ndarray",
            "parameters": [
                {"name": n, "kind": "POSITIONAL_OR_KEYWORD", "annotation": a, "has_default": False}
                for n, a in (("array", "numpy.ndarray"), ("scale", "torch.Tensor"))
            ],
            "returns": "numpy.ndarray",
            "is_stream": False,
            "doc": "Scale an array.",
        }
        assert post(address, "/rpc/square", "[3]") == (200, '{"result":9}\n')
        assert post(address, "/rpc/square", '{"n": 3}') == (200, '{"result":9}\n')
        assert post(address, "/rpc/norm", "[[1, 2], [3.0]]") == (200, '{"result":[3.0,6.0]}\n')
        assert post(address, "/rpc/squares", "[3]")[1].splitlines() == [
            '{"item":0}',
            '{"item":1}',
            '{"item":4}',
            '{"result":null}',
        ]
        status, text = post(address, "/rpc/square", "[-1]")
        assert (status, json.loads(text)["error"]["type"]) == (500, "ValueError")
        for path, body, code, message in [
            ("/rpc/square", "{", 400, "not JSON"),
            ("/rpc/square", "3", 400, "positional arguments are a list"),
            ("/rpc/square", '["a"]', 422, "argument 'n'"),
            ("/rpc/sqare", "[1]", 404, "did you mean 'square'"),
            ("/nowhere", "[1]", 404, "there is POST /rpc/, GET /"),
            ("/calls/x", None, 404, "does not know call x"),
        ]:
            status, text = post(address, path, body)
            assert status == code
            assert message in json.loads(text)["error"]


def test_web_pages_are_not_served(worker):
    worker.rpc()(square)
    with worker.serve(port=0) as address:
        status, text = post(address, "/rpc/square", "[3]", Origin="http://evil.example")
        assert (status, json.loads(text)["error"]) == (403, "requests from web pages are not served")


def test_port_in_use_is_told(worker):
    with worker.serve(port=0) as address:
        again = axon.Worker().serve(port=address.port)
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{address.port}"):
            again.__enter__()


def test_short_calls_are_not_held_up_by_long_ones(worker):
    release = threading.Event()
    worker.rpc(name="long")(lambda: release.wait(30))
    worker.rpc(name="short")(lambda: "short")
    with worker.serve(port=0) as address:
        remote = axon.connect(str(address))
        handles = [remote.long.start() for _ in range(10)]
        for _ in range(20):
            assert remote.short() == "short"
        release.set()
        assert all(handle.join(30) for handle in handles)


def test_scopes_around_a_yield_hold(worker):
    """The steps of an async generator run in one task, so that a task group or timeout may span them."""
    tasks = set()

    @worker.rpc()
    async def steps():
        for _ in range(3):
            tasks.add(asyncio.current_task())
            await asyncio.sleep(0)
            yield 1

    with worker.serve(port=0) as address:
        assert list(axon.connect(str(address)).steps()) == [1, 1, 1]
        assert list(axon.connect(str(address), duplex=True).steps()) == [1, 1, 1]
    assert len(tasks) == 2


@pytest.mark.parametrize("duplex", [False, True])
def test_function_that_cancels_itself_is_answered(worker, duplex):
    @worker.rpc()
    async def odd():
        raise asyncio.CancelledError

    @worker.rpc()
    async def odd_stream():
        yield 1
        raise asyncio.CancelledError

    with worker.serve(port=0) as address:
        remote = axon.connect(str(address), duplex=duplex, patience_seconds=1)
        with pytest.raises(RemoteError, match="CancelledError"):
            remote.odd()
        with pytest.raises(axon.ConnectionLost):
            list(remote.odd_stream())


def test_process_rpc_says_whose_it_is(worker):
    worker.rpc(executor="process")(square)
    with worker.serve(port=0) as address, pytest.raises(RemoteError, match="ValueError on pi1"):
        axon.connect(str(address)).square(-1)


def test_names_are_not_taken_twice(worker):
    worker.rpc(name="a")(square)
    worker.rpc(name="a")(square)
    with pytest.raises(ConfigError, match="'a' is offered twice, by .*square and .*squares"):
        worker.rpc(name="a")(squares)
