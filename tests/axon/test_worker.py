"""Workers: what they offer and where it runs, how they stop, and what they answer to people and curl."""

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


def spin() -> None:
    while True:
        pass


def die() -> None:
    os._exit(3)


def post(address, path, body, **headers):
    request = urllib.request.Request(f"{address}{path}", body.encode() if body is not None else None, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_arguments_get_their_annotated_types(worker, serve):
    @worker.rpc()
    def describe(point: Point, boxes: list[Box], *rest: Colour, **named: Point) -> list:
        assert isinstance(point, Point)
        assert isinstance(boxes[0], Box)
        return [point.colour is Colour.RED, boxes[0].weights.sum().item(), rest, {k: v.x for k, v in named.items()}]

    remote = serve()
    result = remote.describe(Point(1), [Box(Point(2), torch.ones(3))], Colour.RED, a=Point(5))
    assert result == [True, 3.0, ("red",), {"a": 5}]
    with pytest.raises(Refused, match=r"argument 'point'.*int.*\$\.x"):
        remote.describe({"x": "one"}, [])


def test_unusable_functions_are_refused_at_start(worker):
    def with_unknown_type(a: "Nowhere"):  # noqa: F821
        pass

    async def coroutine():
        pass

    worker.rpc(name="taken")(square)
    worker.rpc(name="taken")(square)  # the same function again
    for function, settings, message in [
        (with_unknown_type, {}, "Nowhere"),
        (square, {"executor": "gpu"}, "executor 'gpu' is unknown; allowed: loop, thread, process"),
        (coroutine, {"executor": "thread"}, "runs on the loop"),
        (lambda: None, {"name": "local", "executor": "process"}, "must be a function at the top of a module"),
        (square, {"name": "a/b"}, "made of identifiers"),
        (squares, {"name": "taken"}, "'taken' is offered twice, by .*square and .*squares"),
    ]:
        with pytest.raises(ConfigError, match=message):
            worker.rpc(**settings)(function)
    with pytest.raises(ConfigError, match="no public methods"):
        worker.service(object())


def test_service_offers_public_methods(worker, serve):
    class Trainer:
        rate = 0.5

        def step(self, by: int) -> float:
            return self._secret(by)

        def _secret(self, by):
            return by * self.rate

    worker.service(Trainer())
    worker.service(Trainer(), name="second")
    remote = serve()
    assert remote.step(2) == 1.0
    assert remote.second.step(by=3) == 1.5
    assert {rpc.name for rpc in remote.describe_worker().rpcs} == {"step", "second.step"}
    with pytest.raises(Refused, match="no rpc '_secret'"):
        SyncSimplexStub("127.0.0.1", "_secret", port=remote._caller.address.port)(1)


@pytest.mark.parametrize("executor", ["loop", "thread", "process"])
def test_executors_run_and_stream_and_raise(worker, serve, executor):
    worker.rpc(executor=executor)(square)
    worker.rpc(executor=executor)(squares)
    remote = serve()
    assert remote.square(12) == 144
    assert list(remote.squares(5)) == [0, 1, 4, 9, 16]
    with pytest.raises(RemoteError, match="ValueError on pi1: negative") as caught:
        remote.square(-1)
    assert 'raise ValueError("negative")' in caught.value.remote_traceback
    assert remote.square(2) == 4


def test_threads_block_neither_the_loop_nor_short_calls(worker, serve):
    release = threading.Event()

    @worker.rpc()
    def wait() -> str:
        release.wait(30)
        return threading.current_thread().name

    worker.rpc(name="short")(lambda: "short")
    worker.rpc(name="let_go", executor="loop")(release.set)
    remote = serve()
    handles = [remote.wait.start() for _ in range(10)]
    assert [remote.short() for _ in range(20)] == ["short"] * 20
    remote.let_go()
    assert all(handle.join(30).startswith("axon-call") for handle in handles)


def test_processes_are_others_and_are_killed_by_cancelling(worker, serve):
    for function in (os.getpid, spin, die):
        worker.rpc(executor="process")(function)
    remote = serve()
    first = remote.getpid()
    assert first != os.getpid()
    assert remote.getpid() == first
    with pytest.raises(axon.TimedOut):
        remote.spin.options(timeout_seconds=1.5)()
    with pytest.raises(RemoteError, match="the process died while it ran die: exit status 3"):
        remote.die()
    assert remote.getpid() != os.getpid()


@pytest.mark.parametrize("duplex", [False, True])
def test_cancelled_thread_sees_it(worker, serve, duplex):
    started, ended = threading.Event(), threading.Event()

    @worker.rpc()
    def long() -> None:
        started.set()
        while not axon.worker.is_cancelled():
            time.sleep(0.005)
        ended.set()

    handle = serve().long.options(duplex=duplex).start()
    assert started.wait(10)
    assert handle.cancel()
    assert ended.wait(10)
    assert handle.done()


@pytest.mark.parametrize("duplex", [False, True])
def test_leaving_a_stream_closes_the_generator(worker, serve, duplex):
    closed = threading.Event()

    @worker.rpc()
    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with serve().endless.options(duplex=duplex)() as stream:
        assert next(stream) == 1
    assert closed.wait(10)


def test_stopping_waits_for_calls_then_cancels(worker):
    begun, cancelled = threading.Semaphore(0), threading.Event()

    @worker.rpc()
    async def nap(seconds: float) -> str:
        begun.release()
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "rested"

    with worker.serve(port=0) as address:
        handle = axon.connect(str(address)).nap.start(0.3)
        assert begun.acquire(timeout=10)
    assert handle.join(10) == "rested"
    with worker.serve(port=0, grace_seconds=0.1) as address:
        handle = axon.connect(str(address)).nap.start(60.0)
        assert begun.acquire(timeout=10)
    with pytest.raises(axon.ConnectionLost):
        handle.join(10)
    assert cancelled.is_set()
    with pytest.raises(Unreachable):
        axon.connect(str(address)).nap(1.0)


def test_what_cannot_be_returned_is_an_error_of_the_call(worker, serve):
    worker.rpc(name="bad")(lambda: object())
    worker.rpc(name="leave")(lambda: exit(1))
    remote = serve()
    with pytest.raises(RemoteError, match="WireError on pi1: cannot send a builtins.object"):
        remote.bad()
    with pytest.raises(RemoteError, match="SystemExit"):
        remote.leave()


def test_json_for_people(worker, serve):
    worker.rpc()(square)
    worker.rpc()(squares)

    @worker.rpc()
    def norm(array: np.ndarray, scale: torch.Tensor) -> np.ndarray:
        """Scale an array."""
        return array * scale.numpy()

    address = serve().url
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
    items = post(address, "/rpc/squares", "[3]")[1].splitlines()
    assert items == ['{"item":0}', '{"item":1}', '{"item":4}', '{"result":null}']
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


def test_web_pages_are_not_served(worker, serve):
    worker.rpc()(square)
    status, text = post(serve().url, "/rpc/square", "[3]", Origin="http://evil.example")
    assert (status, json.loads(text)["error"]) == (403, "requests from web pages are not served")


def test_port_in_use_is_reported(worker):
    with worker.serve(port=0) as address:
        again = axon.Worker().serve(port=address.port)
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{address.port}"):
            again.__enter__()


def test_scopes_around_a_yield_hold(worker, serve):
    """The steps of an async generator run in one task, so that a task group or timeout may span them."""
    tasks = set()

    @worker.rpc()
    async def steps():
        for _ in range(3):
            tasks.add(asyncio.current_task())
            await asyncio.sleep(0)
            yield 1

    remote = serve()
    assert list(remote.steps()) == list(remote.steps.options(duplex=True)()) == [1, 1, 1]
    assert len(tasks) == 2


@pytest.mark.parametrize("duplex", [False, True])
def test_function_that_cancels_itself_is_answered(worker, serve, duplex):
    @worker.rpc()
    async def odd():
        raise asyncio.CancelledError

    @worker.rpc()
    async def odd_stream():
        yield 1
        raise asyncio.CancelledError

    remote, options = serve(), {"duplex": duplex, "patience_seconds": 1}
    with pytest.raises(RemoteError, match="CancelledError"):
        remote.odd.options(**options)()
    with pytest.raises(axon.ConnectionLost):
        list(remote.odd_stream.options(**options)())
