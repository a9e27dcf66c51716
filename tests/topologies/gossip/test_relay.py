"""Peers that nobody can call, by way of those that can be: they train along, and outlive their relays."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from paceline.axon.keys import DeviceKey, short
from paceline.errors import PacelineError
from paceline.topologies.access import AuditLog
from paceline.topologies.gossip.events import EpochEnded, PeerLost, PeerStarted, RelayFound
from paceline.topologies.gossip.mass import FULL_MASS
from paceline.topologies.gossip.relayed_calls import CallSigner
from tests.topologies.gossip.answers import record
from tests.topologies.gossip.masses import total_mass
from tests.topologies.gossip.swarm import Swarm, play
from tests.topologies.gossip.test_peer import averaged, job, of


def swarm_of(reachable, hidden, *, disk=None, **rules):
    """A swarm of peers that can be called, the first of which all know, and of others behind NAT."""
    swarm = Swarm(job(**{"min_peers": len(reachable + hidden), **rules}), disk=disk, has_keys=True)
    for name in reachable:
        swarm.start(name, reachable[0] if name != reachable[0] else ())
    for name in hidden:
        swarm.start(name, reachable[0], behind_nat=True)
    return swarm


def relay_of(swarm, name):
    """The relay that a peer found last."""
    return of(RelayFound, swarm, name)[-1].relay


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_peers_behind_nat_train_with_all_others(exchange):
    async def main():
        swarm = swarm_of("cd", "abe", exchange=exchange)  # a, which nobody can call, makes the average
        results = await swarm.results()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return swarm, results

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcde", "abcde")
    assert len({tuple(result.parameters["float32"].tolist()) for result in results.values()}) == 1
    assert of(PeerLost, swarm) == []
    assert {event.learner for event in of(RelayFound, swarm)} == set("abe")
    assert {event.relay for event in of(RelayFound, swarm)} <= set("cd")
    assert len(of(RelayFound, swarm)) == 3
    if exchange == "mixing":
        assert all(event.num_exchanges == 4 for event in of(EpochEnded, swarm))


async def kill(swarm, name):
    await swarm.kill(name)


async def unplug(swarm, name):
    swarm.links[name].cut()
    swarm.lives[name].cancel()


@pytest.mark.parametrize("lose", [kill, unplug])
@pytest.mark.parametrize("patience_seconds", [0.5, 3.0])
def test_when_a_relay_vanishes_another_is_taken_and_training_goes_on(patience_seconds, lose):
    async def main():
        swarm = swarm_of("bcd", "a", epochs=30, patience_seconds=patience_seconds)
        await asyncio.sleep(2)
        lost = relay_of(swarm, "a")
        await lose(swarm, lost)
        return swarm, lost, await swarm.results()

    swarm, lost, results = play(main())
    left = "abcd".replace(lost, "")
    assert averaged(results) == dict.fromkeys(left, left)
    first, second = (event.relay for event in of(RelayFound, swarm, "a"))
    assert first == lost != second
    assert {event.other for event in of(PeerLost, swarm)} == {lost}
    assert len(of(EpochEnded, swarm, "a")) == 30


async def other_answers(call, held):
    reply = await held(call)
    return None if reply is None else replace(reply, body=bytes(len(reply.body)))


async def answers_of_its_own(call, held):
    return CallSigner("", "liar", DeviceKey.generate()).reply(call, status=200)


async def other_calls(call, held):
    return await held(replace(call, body=bytes(len(call.body))))


async def calls_of_its_own(call, held):
    stranger = CallSigner("", call.caller, DeviceKey.generate())
    return await held(stranger.call(record("a", key=call.to_key), method=call.method, path=call.path, body=call.body))


async def old_calls(call, held, kept=[]):  # noqa: B006  (so that it lasts)
    kept.append(call)
    return await held(kept[0])


async def no_calls(call, held):
    return None


async def errors(call, held):
    raise ValueError("no")


LIARS = [other_answers, answers_of_its_own, other_calls, calls_of_its_own, old_calls, no_calls, errors, None]


def corrupt(swarm, liar):
    """Have the relay of peer a treat calls to it as this function does; None for one that takes no answers."""
    relay = next(peer for peer in swarm.peers if peer.name == relay_of(swarm, "a"))._relay
    held = relay.call
    if liar is None:
        relay.answer = lambda number, reply: asyncio.sleep(0, False)
    else:
        relay.call = lambda call: liar(call, held)


@pytest.mark.parametrize("liar", LIARS)
def test_a_relay_that_lies_or_refuses_is_left(liar):
    async def main():
        swarm = swarm_of("bc", "a", epochs=60)
        await asyncio.sleep(0.5)
        corrupt(swarm, liar)
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abc", "abc")
    assert len(of(EpochEnded, swarm, "a")) == 60
    first, second = (event.relay for event in of(RelayFound, swarm, "a"))
    assert first != second
    assert {event.other for event in of(PeerLost, swarm)} == {"a"}


def test_a_relay_that_denies_what_it_delivered_makes_no_mass():
    num_denied = 0

    async def deny(call, held):
        nonlocal num_denied
        num_denied += (await held(call)) is not None and call.path == "/rpc/push"

    async def main():
        swarm = swarm_of("bc", "a", epochs=200, exchange="push-sum", push_probability=0.3)
        await asyncio.sleep(0.5)
        corrupt(swarm, deny)
        await asyncio.sleep(8)
        await swarm.end()
        return swarm

    swarm = play(main())
    assert num_denied
    assert len(of(RelayFound, swarm, "a")) > 1
    assert total_mass([peer._exchange.account for peer in swarm.peers]) == 3 * FULL_MASS


def test_who_polls_in_the_name_of_another_is_recorded(tmp_path):
    async def main():
        peer, _ = Swarm(job(), has_keys=True).make("a")
        peer.audit = AuditLog(tmp_path)
        stranger = CallSigner("", "victim", DeviceKey.generate())
        with pytest.raises(ValueError, match="not signed with its key"):
            await peer.take_call(stranger.poll(peer._membership.me, number=1))
        peer.audit.close()
        return stranger.public

    key = play(main())
    (line,) = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (line["what"], line["name"], line["key"]) == ("refusal", "victim", short(key))


def test_who_wants_to_pass_no_calls_on_passes_none():
    async def main():
        swarm = swarm_of("a", "", min_peers=4)
        swarm.start("b", "a", passes_calls=False)
        for name in "cd":
            swarm.start(name, "b", behind_nat=True)
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcd", "abcd")
    assert {event.relay for event in of(RelayFound, swarm)} == {"a"}


def test_one_peer_that_can_be_called_is_enough_until_the_end():
    async def main():
        swarm = swarm_of("d", "abc")
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcd", "abcd")
    assert of(PeerLost, swarm) == []


def test_the_only_relay_comes_back_and_is_used_again(tmp_path):
    async def main():
        swarm = swarm_of("d", "ab", epochs=60, disk=tmp_path)
        await asyncio.sleep(2)
        await swarm.kill("d")
        await asyncio.sleep(3)
        swarm.start("d", life=100, number=0)
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abd", "abd")
    assert [event.relay for event in of(RelayFound, swarm, "a")] == ["d", "d"]


def test_a_peer_behind_nat_goes_on_after_it_was_killed(tmp_path):
    async def main():
        swarm = swarm_of("cd", "ab", epochs=60, exchange="push-sum", disk=tmp_path)
        await asyncio.sleep(1.5)
        await swarm.kill("a")
        await asyncio.sleep(0.1)  # before the others, or its relay, have missed it
        swarm.start("a", "d", life=100, number=2, behind_nat=True)
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcd", "abcd")
    assert max(event.epoch for event in of(PeerStarted, swarm, "a")) > 5


def test_a_newcomer_behind_nat_is_given_its_share():
    async def main():
        swarm = swarm_of("ab", "c", exchange="push-sum", epochs=40)
        await asyncio.sleep(1)
        swarm.start("d", "a", behind_nat=True)
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcd", "abcd")
    assert swarm.begun["d"] > 0


def test_a_relay_that_cannot_be_called_yet_is_waited_for():
    async def main():
        swarm = Swarm(job(), has_keys=True)
        peer, transport = swarm.make("a")
        async with swarm.serving(peer, transport) as address:
            swarm.start("b", "a", behind_nat=True)
            await asyncio.sleep(5)
            assert of(RelayFound, swarm) == []
            run = asyncio.ensure_future(peer.run(address))
            results = await swarm.results()
            await run
            return results

    assert averaged(play(main())) == {"b": "ab"}


def test_without_a_peer_that_can_be_called_there_is_one_clear_line():
    async def main():
        swarm = swarm_of("a", "b", min_peers=3)
        await asyncio.sleep(1)
        swarm.start("c", "a", behind_nat=True)
        swarm.peers[0]._relay.take = None
        with pytest.raises(PacelineError, match="of those that it knows, none passes calls on to it"):
            await swarm.lives["c"]
        await swarm.end()

    play(main())
