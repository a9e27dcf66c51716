"""A relay by itself: whom it believes, what it holds at most, and what a peer behind it answers."""

import asyncio

import pytest
from msgspec.structs import replace

from paceline.axon.keys import DeviceKey
from paceline.axon.messages import Reply
from paceline.topologies.access import AuditLog
from paceline.topologies.gossip import relay as bounds
from paceline.topologies.gossip.membership import Membership, Signer
from paceline.topologies.gossip.relay import Relay
from paceline.topologies.gossip.relay_client import RelayClient
from paceline.topologies.gossip.relayed_calls import CallSigner
from tests.topologies.gossip.answers import record

POLL_SECONDS = 1.0
HOLD_SECONDS = 8.0
MESSAGE_BYTES = 1000
AT_RELAY = record("r", life=3)


@pytest.fixture(scope="module")
def signers():
    """Of the peers by name; a is behind NAT."""
    return {name: CallSigner("job", name, DeviceKey.generate()) for name in "abr"}


@pytest.fixture
def relay(signers):
    sizes = {"poll_seconds": POLL_SECONDS, "hold_seconds": HOLD_SECONDS, "max_message_bytes": MESSAGE_BYTES}
    return Relay(signers["r"], lambda: AT_RELAY, **sizes)


def call_to_a(signers, *, by="b", life=1, body=b"", **changes):
    to = record("a", key=signers["a"].public, life=life)
    return signers[by].call(to, **{"method": "POST", "path": "/rpc/push", "body": body, **changes})


async def opened(relay, signers, number=1):
    """Open the mailbox of a."""
    assert await relay.take(signers["a"].poll(AT_RELAY, number=number, intent="open")) is None


async def answer_all(relay, signers, status=200, body=b"yes"):
    """Take calls to a and answer them, without an end."""
    number = after = 0
    while True:
        number += 1
        taken = await relay.take(signers["a"].poll(AT_RELAY, number=number, after=after))
        if taken is not None:
            after = taken.number
            assert await relay.answer(taken.number, signers["a"].reply(taken.call, status=status, body=body))


def test_calls_are_held_until_they_are_taken_and_answered(run_virtual, relay, signers):
    async def main():
        await opened(relay, signers, number=0)
        calls = [call_to_a(signers, body=bytes([number])) for number in range(3)]
        replies = [asyncio.ensure_future(relay.call(call)) for call in calls]
        answering = asyncio.ensure_future(answer_all(relay, signers))
        for call, reply in zip(calls, replies, strict=True):
            assert signers["b"].is_of_called(call, await reply)
        answering.cancel()

    run_virtual(main())
    assert relay._num_held_bytes == 0


def test_a_call_whose_poll_was_lost_comes_again(run_virtual, relay, signers):
    async def main():
        await opened(relay, signers, number=0)
        waiting = [asyncio.ensure_future(relay.call(call_to_a(signers))) for _ in range(2)]
        await asyncio.sleep(0)
        polls = [signers["a"].poll(AT_RELAY, number=number, after=after) for number, after in ((1, 0), (2, 0), (3, 1))]
        taken = [(await relay.take(poll)).number for poll in polls]
        for one in waiting:
            one.cancel()
        return taken

    assert run_virtual(main()) == [1, 1, 2]


POLLS = {
    "not signed": lambda poll: replace(poll, signature=b""),
    "of another key": lambda poll: replace(poll, key=DeviceKey.generate().public),
    "another number": lambda poll: replace(poll, number=poll.number + 1),
    "another intent": lambda poll: replace(poll, intent="close"),
    "no key": lambda poll: replace(poll, key="x"),
    "another name": lambda poll: replace(poll, name="b"),
}


@pytest.mark.parametrize("change", POLLS.values(), ids=POLLS)
def test_only_the_owner_of_a_key_takes_calls(run_virtual, relay, signers, change):
    with pytest.raises(ValueError, match="not signed with its key"):
        run_virtual(relay.take(change(signers["a"].poll(AT_RELAY, number=5))))
    assert relay._mailboxes == {}


@pytest.mark.parametrize("other", [record("r", life=2), record("s", life=3)], ids=["an earlier life", "another relay"])
def test_a_poll_counts_at_one_relay_in_one_life(run_virtual, relay, signers, other):
    with pytest.raises(ValueError, match="not signed with its key"):
        run_virtual(relay.take(signers["a"].poll(other, number=5)))


def test_nobody_repeats_a_poll(run_virtual, relay, signers):
    async def main():
        poll = signers["a"].poll(AT_RELAY, number=5, intent="open")
        await relay.take(poll)
        for number in (5, 4):
            with pytest.raises(ValueError, match=f"poll {number} came before"):
                await relay.take(signers["a"].poll(AT_RELAY, number=number))

    run_virtual(main())


def test_nobody_answers_for_another(run_virtual, relay, signers):
    async def main():
        await opened(relay, signers)
        call, other = call_to_a(signers), call_to_a(signers)
        waiting = asyncio.ensure_future(relay.call(call))
        await asyncio.sleep(0)
        forged = [
            signers["b"].reply(call, status=200),
            signers["a"].reply(other, status=200),  # the answer to another call, or to one that was before
            replace(signers["a"].reply(call, status=200), body=b"no"),
        ]
        for reply in forged:
            with pytest.raises(ValueError, match="not signed by the peer that was called"):
                await relay.answer(1, reply)
        assert not waiting.done()
        assert await relay.answer(9, forged[0])  # nobody waits for it, so it is passed to nobody
        waiting.cancel()

    run_virtual(main())


def test_calls_to_who_has_no_mailbox_or_polls_no_more_come_back_at_once(run_virtual, relay, signers):
    async def main():
        loop = asyncio.get_running_loop()
        assert await relay.call(call_to_a(signers)) is None
        await opened(relay, signers)
        await asyncio.sleep(2 * POLL_SECONDS + 0.1)
        before = loop.time()
        assert await relay.call(call_to_a(signers)) is None
        await opened(relay, signers, number=2)
        waiting = asyncio.ensure_future(relay.call(call_to_a(signers)))
        await asyncio.sleep(0)
        await relay.take(signers["a"].poll(AT_RELAY, number=3, intent="close"))
        assert await waiting is None
        return loop.time() - before

    assert run_virtual(main()) == 0


def test_two_peers_of_one_device_have_a_mailbox_each(run_virtual, relay, signers):
    twin = CallSigner("job", "twin", signers["a"]._key)

    async def main():
        for signer in (signers["a"], twin):
            await relay.take(signer.poll(AT_RELAY, number=1, intent="open"))
        waiting = asyncio.ensure_future(relay.call(call_to_a(signers)))
        await asyncio.sleep(0)
        taken = [await relay.take(signer.poll(AT_RELAY, number=2)) for signer in (twin, signers["a"])]
        waiting.cancel()
        return taken

    nothing, taken = run_virtual(main())
    assert nothing is None
    assert taken.call.to == "a"


def test_a_call_is_not_held_for_long(run_virtual, relay, signers):
    async def main():
        await opened(relay, signers)
        assert await relay.call(call_to_a(signers, body=b"much")) is None
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == HOLD_SECONDS
    assert relay._num_held_bytes == 0


def test_who_gives_up_leaves_nothing_behind(run_virtual, relay, signers):
    async def main():
        await opened(relay, signers)
        waiting = asyncio.ensure_future(relay.call(call_to_a(signers, body=b"much")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        return await relay.take(signers["a"].poll(AT_RELAY, number=2))

    assert run_virtual(main()) is None
    assert relay._num_held_bytes == 0


def test_what_is_held_is_bounded(run_virtual, relay, signers):
    most = bounds.MAX_HELD_MESSAGES * MESSAGE_BYTES

    async def main():
        await opened(relay, signers)
        many = [asyncio.ensure_future(relay.call(call_to_a(signers))) for _ in range(bounds.MAX_HELD_CALLS)]
        await asyncio.sleep(0)
        assert await relay.call(call_to_a(signers)) is None
        for one in many:
            one.cancel()
        await asyncio.wait(many)

        large = asyncio.ensure_future(relay.call(call_to_a(signers, body=bytes(most // 2))))
        await asyncio.sleep(0)
        assert await relay.call(call_to_a(signers, body=b"1")) is None
        taken = await relay.take(signers["a"].poll(AT_RELAY, number=2))
        too_large, fits = (signers["a"].reply(taken.call, status=200, body=bytes(most // 2 + more)) for more in (1, 0))
        assert not await relay.answer(taken.number, too_large)
        assert await relay.answer(taken.number, fits)
        assert await large == fits

    run_virtual(main())
    assert relay._num_held_bytes == 0


def test_mailboxes_are_bounded_and_those_that_are_not_used_make_room(run_virtual, relay, signers):
    async def main():
        for _ in range(bounds.MAX_MAILBOXES):
            stranger = CallSigner("job", "x", DeviceKey.generate())
            await relay.take(stranger.poll(AT_RELAY, number=1, intent="open"))
        with pytest.raises(ValueError, match=f"the relay of {bounds.MAX_MAILBOXES} others already"):
            await opened(relay, signers)
        await asyncio.sleep(2 * POLL_SECONDS)
        await opened(relay, signers, number=2)

    run_virtual(main())
    assert len(relay._mailboxes) == 1


class Echo:
    """An app that answers what it is asked, and remembers that."""

    def __init__(self):
        self.requests = []

    async def handle(self, request):
        self.requests.append(request)
        return Reply(200, {"content-type": "text/plain"}, request.body)


@pytest.fixture
def client(signers, tmp_path):
    """What answers at a, which knows b, and is in its second life."""
    key = signers["a"]._key
    membership = Membership(record("a", life=2), signer=Signer("job", key))
    b = Membership(record("b"), signer=Signer("job", signers["b"]._key))
    membership.merge([b.me])
    return RelayClient(
        Echo(),
        signers["a"],
        membership,
        None,
        None,
        AuditLog(tmp_path),
        poll_seconds=POLL_SECONDS,
        hold_seconds=HOLD_SECONDS,
        on_relay=None,
    )


def test_a_peer_answers_calls_of_others_that_are_theirs(run_virtual, client, signers):
    for by in "br":  # r is not known yet, and may be anybody
        call = call_to_a(signers, by=by, life=2, body=b"this", content_type="text/plain", call_id="once")
        reply = run_virtual(client.reply(call))
        assert (reply.status, reply.body) == (200, b"this")
        assert signers[by].is_of_called(call, reply)
    request = client._app.requests[0]
    assert (request.method, request.path, request.headers["axon-call"]) == ("POST", "/rpc/push", "once")


CALLS = {
    "an earlier life": (lambda call, signers: call_to_a(signers, life=1), "a life that this one was in before"),
    "another key": (lambda call, signers: replace(call, to_key=signers["r"].public), "to another peer"),
    "another name": (lambda call, signers: replace(call, to="b"), "to another peer"),
    "another body": (lambda call, signers: replace(call, body=b"that"), "not signed with the key"),
    "another path": (lambda call, signers: replace(call, path="/rpc/fetch_newest"), "not signed with the key"),
    "another job": (
        lambda call, signers: call_to_a({**signers, "b": CallSigner("x", "b", signers["b"]._key)}, life=2),
        "not signed with the key",
    ),
    "another device": (
        lambda call, signers: call_to_a({**signers, "b": CallSigner("job", "b", signers["r"]._key)}, life=2),
        "'b' is another device's name",
    ),
}


@pytest.mark.parametrize(("change", "why"), CALLS.values(), ids=CALLS)
def test_a_peer_answers_nothing_that_was_made_up_on_the_way(run_virtual, client, signers, tmp_path, change, why):
    reply = run_virtual(client.reply(change(call_to_a(signers, life=2), signers)))
    assert reply.status == 403
    assert why in reply.body.decode()
    assert client._app.requests == []
    assert why in (tmp_path / "audit.jsonl").read_text()
