"""`connect`: functions as attributes, checked against what the worker publishes."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pytest

from paceline import axon
from paceline.errors import BadReply, ConfigError, RemoteError, Unreachable


@dataclass
class Profile:
    samples_per_second: float
    name: str = "unnamed"


class Device(Protocol):
    def profile(self, name: str) -> Profile: ...

    def profiles(self, n: int) -> Iterator[Profile]: ...


@pytest.fixture
def remote(worker, serve):
    @worker.rpc()
    def profile(name: str) -> Profile:
        return Profile(100.0, name)

    @worker.rpc()
    def scale(x: float, *, by: float = 2.0) -> float:
        return x * by

    @worker.rpc()
    def count(n: int):
        yield from range(n)

    @worker.rpc()
    def profiles(n: int):
        for number in range(n):
            yield Profile(float(number))

    return serve()


def test_the_three_forms(remote):
    assert remote.scale(2.0) == 4.0
    handle = remote.scale.start(2.0, by=3.0)
    assert handle.join(10) == 6.0

    async def main():
        items = [item async for item in await remote.count.coro(3)]
        assert [item async for item in await remote.count.start(3)] == items
        return await remote.scale.coro(1.0), await remote.scale.start(5.0), items

    assert asyncio.run(main()) == (2.0, 10.0, [0, 1, 2])


def test_options_apply_to_one_function(remote):
    assert remote.scale.options(duplex=True, timeout_seconds=30)(1.0) == 2.0
    with pytest.raises(ConfigError, match="timeout_seconds is -1"):
        remote.scale.options(timeout_seconds=-1)
    with pytest.raises(TypeError, match="timeout"):
        axon.connect(remote.url, timeout=3)


def test_wrong_names_and_arguments_fail_here(remote):
    with pytest.raises(AttributeError, match="pi1 at .* has no rpc 'scal'; did you mean 'scale'"):
        remote.scal(1)
    for args, kwargs in [((), {}), ((1.0, 2.0), {}), ((1.0,), {"to": 3})]:
        with pytest.raises(TypeError, match=r"scale\(x: float, \*, by: float = 2.0\) -> float: "):
            remote.scale(*args, **kwargs)


def test_interface_gives_results_their_types(remote):
    typed = axon.connect(remote.url, interface=Device)
    assert typed.profile("kitchen") == Profile(100.0, "kitchen")
    assert list(typed.profiles(2)) == [Profile(0.0), Profile(1.0)]
    assert remote.profile("kitchen") == {"samples_per_second": 100.0, "name": "kitchen"}


def test_wrong_interface_fails_at_the_first_call(remote):
    class Newer(Protocol):
        def profile(self, name: str, seconds: float) -> Profile: ...

    class Other(Protocol):
        def absent(self) -> int: ...

    class Mistyped(Protocol):
        def profile(self, name: str) -> int: ...

    with pytest.raises(ConfigError, match=r"another version: it has profile\(name\) instead of profile\(name, sec"):
        axon.connect(remote.url, interface=Newer).profile("x", 1.0)
    with pytest.raises(ConfigError, match="is not what is expected: it has no function 'absent'"):
        axon.connect(remote.url, interface=Other).absent()
    with pytest.raises(BadReply, match="returned something else than announced"):
        axon.connect(remote.url, interface=Mistyped).profile("x")


def test_functions_that_are_offered_later_are_found(worker, remote):
    assert remote.scale(1.0) == 2.0
    worker.rpc(name="second")(lambda: 2)
    assert remote.second() == 2


def test_blocking_call_on_the_background_loop_is_refused(worker, remote):
    worker.rpc(name="relay", executor="loop")(lambda: remote.scale(1.0))
    with pytest.raises(RemoteError, match="would wait for itself"):
        axon.connect(remote.url).relay()


def test_something_else_answers_there():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        remote = axon.connect(f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(BadReply, match="answers, but not as Paceline does: check host and port"):
            remote.hello()
        thread.join()


def test_fan_out_collects_results_and_failures(remote):
    slow_worker = axon.Worker("slow")

    @slow_worker.rpc()
    async def scale(x: float) -> float:
        await asyncio.sleep(30)
        return x

    @slow_worker.rpc()
    def fail() -> None:
        raise RuntimeError("no")

    with slow_worker.serve(port=0) as slow_address:
        fast, slow = remote, axon.connect(str(slow_address))
        outcomes = axon.fan_out(
            {
                "fast": fast.scale.bind(3.0),
                "faster": fast.scale.bind(3.0, by=1.0),
                "slow": slow.scale.bind(3.0),
                "failing": slow.fail.bind(),
                "gone": axon.connect("http://127.0.0.1:1").scale.bind(3.0),
            },
            deadline_seconds=1.0,
        )
        assert outcomes.results == {"fast": 6.0, "faster": 3.0}
        assert {k: type(v) for k, v in outcomes.failures.items()} == {
            "slow": axon.TimedOut,
            "failing": RemoteError,
            "gone": Unreachable,
        }
        outcomes = axon.fan_out({"odd": fast.scale.bind(), "fast": fast.count.bind(2)}, deadline_seconds=5)
        assert isinstance(outcomes.failures["odd"], TypeError)
        assert list(outcomes.results["fast"]) == [0, 1]
        with pytest.raises(ConfigError, match="deadline_seconds is 0"):
            axon.fan_out({}, deadline_seconds=0)
