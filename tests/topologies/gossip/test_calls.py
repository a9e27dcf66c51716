"""Calling peers by name: who is given time, who is taken for gone, and that no answer is too broken to be borne."""

import asyncio
import inspect
from typing import Any

import pytest
import torch

from paceline import axon
from paceline.axon.transports import CountedTransport, Link, MemoryNetwork
from paceline.topologies.base import Node
from paceline.topologies.gossip.calls import Gone, PeerCalls
from paceline.topologies.gossip.membership import Membership
from paceline.topologies.gossip.messages import PeerService
from tests.topologies.gossip.answers import record


class Trial:
    """A peer called a, that knows b, which answers by these functions."""

    def __init__(self, functions=None, link=Link(), model_bytes=1000, port=7223):  # noqa: B008
        self.network = MemoryNetwork()
        self.membership = Membership(record("a"))
        self.membership.merge([record("b", address=f"http://b:{port}")])
        node = Node(name="a", transport=CountedTransport(self.network.host("a", link)))
        self.calls = PeerCalls(self.membership, node, 5.0, model_bytes)
        self.functions = {**{name: nothing(name) for name in PeerService.__abstractmethods__}, **(functions or {})}

    async def serve(self, use):
        worker = axon.Worker("b")
        for name, function in self.functions.items():
            worker.rpc(name=name)(function)
        async with worker.serving(transport=self.network.host("b"), port=7223, grace_seconds=0):
            return await use(self)

    @property
    def status(self):
        return self.membership.get("b").status

    async def fetch_trained(self):
        return await self.calls.call("b", lambda peer: peer.fetch_trained.coro())


def nothing(name):
    """A function that takes what a peer takes, and answers what no peer does."""

    async def answer(*arguments):
        return None

    signature = inspect.signature(getattr(PeerService, name), eval_str=True)
    given = [one.replace(annotation=Any) for one in signature.parameters.values()][1:]
    answer.__signature__ = signature.replace(parameters=given, return_annotation=Any)
    answer.__annotations__ = {**{one.name: Any for one in given}, "return": Any}
    return answer


def answers(value):
    async def fetch_trained() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return {"fetch_trained": fetch_trained}


async def _other_trained(much: int) -> None:
    return


async def _only_by_name(*, learner: str) -> None:
    return


BROKEN = {
    "nothing": answers(None),
    "another status": answers({"status": "maybe"}),
    "an epoch below 0": answers({"status": "ready", "epoch": -1}),
    "rubbish of others": answers({"status": "wait", "members": b"\xc1\xc1"}),
    "names with line ends": answers({"status": "wait", "averaged": ["a\nb"]}),
    "no tensors": answers({"status": "ready", "parameters": {"float32": "many"}}),
    "a mistake of its own": answers(ZeroDivisionError("x" * 10_000)),
    "much too much": answers({"status": "wait", "members": bytes(9 << 20)}),
    "other arguments": {"fetch_trained": _other_trained},
    "other functions": {"fetch_average": _only_by_name},
}


@pytest.mark.parametrize("functions", BROKEN.values(), ids=BROKEN)
def test_who_answers_rubbish_is_taken_for_gone(run_virtual, functions):
    trial = Trial(functions)

    async def use(trial):
        with pytest.raises(Gone, match="^b is gone: "):
            await trial.fetch_trained()
        with pytest.raises(Gone, match="^b is gone$"):
            await trial.fetch_trained()

    run_virtual(trial.serve(use))
    assert trial.status == "dead"


def test_who_cannot_be_reached_is_given_its_time(run_virtual):
    async def main():
        trial = Trial(port=9)
        with pytest.raises(Gone):
            await trial.fetch_trained()
        return trial.status, asyncio.get_running_loop().time()

    status, at = run_virtual(main())
    assert status == "dead"
    assert 2.5 < at <= 5.5


@pytest.mark.parametrize(("model_bytes", "most"), [(1000, 5.1), (636_000, 5 + 12.72)])
def test_who_is_stopped_is_given_its_patience_and_the_time_of_a_model(run_virtual, model_bytes, most):
    async def fetch_trained() -> Any:
        await asyncio.sleep(1000)

    trial = Trial({"fetch_trained": fetch_trained}, model_bytes=model_bytes)

    async def use(trial):
        with pytest.raises(Gone, match="b is gone: .* did not answer within"):
            await trial.fetch_trained()
        return asyncio.get_running_loop().time()

    assert 5.0 <= run_virtual(trial.serve(use)) <= most + 1e-6
    assert trial.status == "dead"


def test_how_long_a_model_may_take_is_learned_from_those_before(run_virtual):
    num_calls = 0

    async def fetch_trained() -> Any:
        nonlocal num_calls
        num_calls += 1
        await asyncio.sleep(0.05 if num_calls == 1 else 1000)
        return {"status": "ready", "parameters": {"float32": torch.zeros(2)}}

    trial = Trial({"fetch_trained": fetch_trained}, model_bytes=5_000_000)

    async def use(trial):
        await trial.fetch_trained()
        with pytest.raises(Gone):
            await trial.fetch_trained()
        return asyncio.get_running_loop().time()

    assert run_virtual(trial.serve(use)) == pytest.approx(0.05 + 5.0 + 8 * 0.05)


@pytest.mark.parametrize("change", [{"status": "dead"}, {"status": "left"}, {"life": 2}], ids=str)
def test_a_call_ends_when_others_know_that_its_peer_is_gone(run_virtual, change):
    async def fetch_trained() -> Any:
        await asyncio.sleep(25)

    trial = Trial({"fetch_trained": fetch_trained})

    async def use(trial):
        loop = asyncio.get_running_loop()
        loop.call_later(3.0, trial.membership.merge, [record("b", beat=1, **change)])
        with pytest.raises(Gone):
            await trial.fetch_trained()
        return loop.time()

    assert run_virtual(trial.serve(use)) == pytest.approx(3.0, abs=0.01)
    assert trial.status == change.get("status", "alive")


def test_cancelling_a_call_cancels_what_it_does(run_virtual):
    was_cancelled = []

    async def fetch_trained() -> Any:
        try:
            await asyncio.sleep(25)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

    async def use(trial):
        call = asyncio.ensure_future(trial.fetch_trained())
        await asyncio.sleep(1)
        call.cancel()
        await asyncio.wait((call,))
        assert call.cancelled()
        return trial.calls._calls

    trial = Trial({"fetch_trained": fetch_trained})
    assert run_virtual(trial.serve(use)) == {}
    assert was_cancelled
    assert trial.status == "alive"


def test_a_large_model_over_a_slow_link_is_given_the_time_it_takes(run_virtual):
    model_bytes = 6_000_000

    async def push(learner: str, transfer: str, mass: int, parameters: Any) -> Any:
        return len(parameters["float32"]) == model_bytes

    trial = Trial({"push": push}, Link(up_bytes_per_second=60_000), model_bytes)

    async def use(trial):
        blob = bytes(model_bytes)
        taken = await trial.calls.call("b", lambda peer: peer.push.coro("a", "t", 1, {"float32": blob}))
        return taken, asyncio.get_running_loop().time()

    assert run_virtual(trial.serve(use)) == (True, pytest.approx(100, abs=1))
    assert trial.status == "alive"
