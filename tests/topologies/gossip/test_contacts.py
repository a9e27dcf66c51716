"""Calling peers by name: who is given time, who is taken for gone, and that no answer is too broken to be borne."""

import asyncio
from typing import Any

import pytest

from paceline import axon
from paceline.axon.transports import Link, MemoryNetwork
from paceline.topologies.gossip.contacts import Access, Contacts, Gone
from paceline.topologies.gossip.members import Membership
from paceline.topologies.gossip.messages import PeerService
from tests.topologies.gossip.answers import member


class Trial:
    """A peer called a, that knows b, which answers by these functions."""

    def __init__(self, functions=None, link=Link(), model_bytes=1000, port=7223):  # noqa: B008
        self.network = MemoryNetwork()
        self.membership = Membership(member("a"))
        self.membership.merge([member("b", address=f"http://b:{port}")])
        access = Access(transport=self.network.host("a", link))
        self.contacts = Contacts(self.membership, access, 5.0, model_bytes)
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

    async def settled(self):
        return await self.contacts.call("b", lambda peer: peer.settled.coro())


def nothing(name):
    """An answer that no peer gives, to the arguments that each of them takes."""

    async def meet(view: Any) -> Any:
        return None

    async def show(epoch: int, base: int) -> Any:
        return None

    async def push(learner: str, transfer: str, mass: int, parameters: Any) -> Any:
        return None

    async def adopt(learner: str, transfer: str) -> Any:
        return None

    async def settled() -> Any:
        return None

    async def conclude(learner: str) -> Any:
        return None

    async def progress() -> Any:
        return None

    return locals()[name]


def answers(value):
    async def settled() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return {"settled": settled}


def test_an_answer_comes_through(run_virtual):
    trial = Trial(answers({"status": "wait", "epoch": 3}))
    assert run_virtual(trial.serve(Trial.settled)).epoch == 3
    assert trial.status == "alive"


BROKEN = {
    "nothing": None,
    "a number": 7,
    "another status": {"status": "maybe"},
    "an epoch below 0": {"status": "ready", "epoch": -1},
    "rubbish of others": {"status": "wait", "members": b"\xc1\xc1"},
    "names with line ends": {"status": "wait", "averaged": ["a\nb"]},
    "no tensors": {"status": "ready", "parameters": {"float32": "many"}},
    "a mistake of its own": ZeroDivisionError("x" * 10_000),
    "much too much": {"status": "wait", "members": bytes(9 << 20)},
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_who_answers_rubbish_is_taken_for_gone(run_virtual, answer):
    trial = Trial(answers(answer))

    async def use(trial):
        with pytest.raises(Gone, match="^b is gone: "):
            await trial.settled()
        with pytest.raises(Gone, match="^b is gone$"):
            await trial.settled()

    run_virtual(trial.serve(use))
    assert trial.status == "dead"


async def _other_settled(much: int) -> None:
    return


async def _only_by_name(*, learner: str) -> None:
    return


@pytest.mark.parametrize("functions", [{"settled": _other_settled}, {"conclude": _only_by_name}])
def test_who_offers_something_else_is_taken_for_gone(run_virtual, functions):
    trial = Trial(functions)

    async def use(trial):
        with pytest.raises(Gone):
            await trial.contacts.call("b", lambda peer: peer.conclude.coro("a"))

    run_virtual(trial.serve(use))
    assert trial.status == "dead"


def test_who_cannot_be_reached_is_given_its_time(run_virtual):
    async def main():
        trial = Trial(port=9)
        with pytest.raises(Gone):
            await trial.settled()
        return trial.status, asyncio.get_running_loop().time()

    status, at = run_virtual(main())
    assert status == "dead"
    assert 2.5 < at <= 5.5


@pytest.mark.parametrize("change", [{"status": "dead"}, {"status": "left"}, {"life": 2}], ids=str)
def test_a_call_ends_when_others_know_that_its_peer_is_gone(run_virtual, change):
    async def settled() -> Any:
        await asyncio.sleep(25)

    trial = Trial({"settled": settled})

    async def use(trial):
        loop = asyncio.get_running_loop()
        news = member("b", beat=1, **change)
        loop.call_later(3.0, trial.membership.merge, [news])
        with pytest.raises(Gone):
            await trial.settled()
        return loop.time()

    assert run_virtual(trial.serve(use)) == pytest.approx(3.0, abs=0.01)
    assert trial.status == change.get("status", "alive")


def test_cancelling_a_call_cancels_what_it_does(run_virtual):
    was_cancelled = []

    async def settled() -> Any:
        try:
            await asyncio.sleep(25)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise

    async def use(trial):
        call = asyncio.ensure_future(trial.settled())
        await asyncio.sleep(1)
        call.cancel()
        await asyncio.wait((call,))
        assert call.cancelled()
        return trial.contacts._calls

    trial = Trial({"settled": settled})
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
        taken = await trial.contacts.call("b", lambda peer: peer.push.coro("a", "t", 1, {"float32": blob}))
        return taken, asyncio.get_running_loop().time()

    assert run_virtual(trial.serve(use)) == (True, pytest.approx(100, abs=1))
    assert trial.status == "alive"
