"""Who says where a peer is called: the peer alone, by its key; and nobody leads a peer with TLS to one without."""

import asyncio

import msgspec
import pytest

import paceline
from paceline import axon
from paceline.axon.keys import DeviceKey
from paceline.axon.transports import CountedTransport, MemoryNetwork
from paceline.errors import ConfigError
from paceline.topologies.base import Contact, Node
from paceline.topologies.gossip.calls import PeerCalls, uses_tls
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.membership import MAX_GONE, Membership, PeerRecord, Signer
from paceline.topologies.gossip.membership_exchange import ViewExchange
from paceline.topologies.gossip.messages import View
from tests.topologies.gossip.answers import record

FINGERPRINT = "sha256:" + "0" * 64
OTHER_FINGERPRINT = "sha256:" + "1" * 64


@pytest.fixture(scope="module")
def keys():
    return {name: DeviceKey.generate() for name in ("a", "b", "c")}


def peer(name, key, *, address=None, job="job", tls=True, **fields):
    """The membership of a peer that signs its record."""
    scheme, fingerprint = ("https", FINGERPRINT) if tls else ("http", None)
    me = PeerRecord(name=name, address=address or f"{scheme}://{name}:1", life=1, fingerprint=fingerprint, **fields)
    return Membership(me, signer=Signer(job, key, uses_tls=tls))


def test_a_signed_record_is_believed_and_passed_on(keys):
    a, b, c = (peer(name, keys[name]) for name in "abc")
    assert b.merge_encoded(a.encoded()) == {}
    assert c.merge_encoded(b.encoded()) == {}
    assert c.get("a") == a.me
    a.amend(epoch=3, is_done=True)  # what changes all the time is not signed
    assert c.merge([a.me]) == {}
    assert c.get("a").epoch == 3
    a.amend(address="https://a:2")
    assert c.merge([a.me]) == {}
    assert c.get("a").address == "https://a:2"


FORGED = {
    "address": {"address": "https://evil:1"},
    "fingerprint": {"fingerprint": OTHER_FINGERPRINT},
    "life": {"life": 2},
    "relay": {"relay": "c"},
    "moves": {"moves": 1},
    "no signature": {"life": 2, "signature": b""},
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_nobody_but_the_peer_says_where_it_is(keys, changes):
    a, b = peer("a", keys["a"]), peer("b", keys["b"])
    forged = msgspec.structs.replace(b.me, beat=9, **changes)
    for before in ([], [b.me]):  # whether it is known or not
        a.merge(before)
        with pytest.raises(ValueError, match="the record of 'b' is not signed with its key"):
            a.merge([forged])
        assert a.get("b") == (b.me if before else None)


def test_a_name_is_bound_to_the_first_key_that_comes_with_it(keys):
    a, b = peer("a", keys["a"]), peer("b", keys["b"])
    impostor = peer("b", keys["c"], address="https://evil:1", beat=9)
    a.merge([b.me])
    assert a.merge([impostor.me]) == {"b": "'b' is another device's name: give each a name of its own"}
    a.declare_dead("b", "it is gone")
    assert a.merge([impostor.me])
    assert a.get("b").key == keys["b"].public
    assert b.merge([impostor.me])  # nor does it unsettle the peer itself
    assert b.rival is None


def test_nobody_sends_a_peer_back_to_a_relay_that_it_left(keys):
    a, b, c = (peer(name, keys[name]) for name in "abc")
    b.move(a.me)
    before = b.me
    b.move(c.me)
    moved = []
    a.merge([before])
    a.watch_moves(moved.append)
    a.merge([b.me])
    a.merge([msgspec.structs.replace(before, beat=99), msgspec.structs.replace(before, beat=99, status="dead")])
    assert a.get("b") == b.me
    assert (b.me.address, b.me.relay, b.me.moves, b.me.is_living) == (c.me.address, "c", 2, True)
    assert moved == [b.me]
    assert b.merge([msgspec.structs.replace(before, beat=99)]) == {}
    assert b.me.life == 1


def test_without_keys_nobody_is_called_by_a_relay():
    a = Membership(record("a"))
    (why,) = a.merge([record("b", relay="c")]).values()
    assert why == "'b' is called by a relay, and here are no keys"
    assert a.get("b") is None


def test_a_record_counts_in_its_job_only(keys):
    a, b = peer("a", keys["a"]), peer("b", keys["b"], job="another job")
    with pytest.raises(ValueError, match="not signed"):
        a.merge([b.me])


def test_a_peer_that_comes_back_is_known_by_its_key(keys):
    a, b = peer("a", keys["a"]), peer("b", keys["b"])
    a.merge([b.me])
    a.declare_dead("b", "it is gone")
    back = Membership(
        PeerRecord(name="b", address="https://b:2", life=2, fingerprint=OTHER_FINGERPRINT),
        signer=Signer("job", keys["b"], uses_tls=True),
    )
    assert a.merge([back.me]) == {}
    assert a.get("b").is_living


def test_a_peer_that_contradicts_signs_its_new_life(keys):
    a, b = peer("a", keys["a"]), peer("b", keys["b"])
    a.merge([b.me])
    b.merge([msgspec.structs.replace(b.me, beat=50, status="dead")])  # others never raise a beat
    assert (b.me.life, b.me.is_living) == (2, True)
    assert a.merge([b.me]) == {}
    assert a.get("b").life == 2


@pytest.mark.parametrize("has_keys", [True, False], ids=["keys", "no keys"])
def test_a_peer_with_tls_takes_no_record_without(keys, has_keys):
    a = peer("a", keys["a"] if has_keys else None)
    plain = peer("b", keys["b"] if has_keys else None, tls=False)
    bare = Membership(
        PeerRecord(name="b", address="https://b:1", life=1), signer=Signer("job", keys["b"] if has_keys else None)
    )
    for one in (plain, bare):  # a certificate that is not known could be anybody's
        (why,) = a.merge([one.me]).values()
        assert why == "'b' has no TLS, and this peer calls nobody without: start all with --tls, or none"
    assert a.get("b") is None
    assert peer("c", keys["c"] if has_keys else None, tls=False).merge([plain.me]) == {}


@pytest.mark.parametrize(
    ("fingerprint", "contacts", "expected"),
    [
        (FINGERPRINT, (), True),
        (None, ("https://b:1",), True),
        (FINGERPRINT, ("http://b:1",), True),
        (None, ("http://b:1",), False),
        (None, (), False),
    ],
)
def test_a_peer_uses_tls_if_it_has_a_certificate_or_joins_one(fingerprint, contacts, expected):
    node = Node(name="a", fingerprint=fingerprint, contacts=[Contact(one) for one in contacts])
    assert uses_tls(node) == expected


def test_the_token_is_never_sent_in_clear_where_a_record_leads(run_virtual, keys):
    """Before, one record with an http:// address was enough."""
    seen = []

    async def exchange_views() -> int:
        seen.append("called")
        return 1

    async def main():
        network = MemoryNetwork()
        node = Node(
            name="a",
            transport=CountedTransport(network.host("a")),
            trust={"token": "S3cret"},
            fingerprint=FINGERPRINT,
            key=keys["a"],
        )
        membership = peer("a", keys["a"])
        calls = PeerCalls(membership, node, 1.0, 100)
        worker = axon.Worker("evil")
        worker.rpc()(exchange_views)
        async with worker.serving(transport=network.host("evil"), port=7223, grace_seconds=0):
            lead = PeerRecord(name="evil", address="http://evil:7223", life=1)
            for signed in (lead, Signer("job", keys["c"]).signed(lead)):
                membership.merge([signed])
            assert [one.name for one in membership.others()] == []
            with pytest.raises(ConfigError, match="http://evil:7223 has no TLS, and this peer calls nobody without"):
                calls.reach(Contact("http://evil:7223"))
            await asyncio.sleep(1)

    run_virtual(main())
    assert seen == []


def test_who_is_long_gone_is_forgotten_and_who_lives_is_not():
    a = Membership(record("a"))
    a.merge([record("dead", status="dead"), record("living")])
    for number in range(2 * MAX_GONE):
        a.merge([record(f"p{number}")])
        a.merge([record(f"p{number}", beat=1, status="left")])
    assert len(a.everybody()) <= MAX_GONE + 2
    assert a.get(f"p{2 * MAX_GONE - 1}") is not None
    assert a.get("p0") is None
    assert a.get("dead") is not None  # its data may have to be taken over
    assert a.get("living").is_living


def test_who_cannot_be_believed_is_told_why_when_it_joins(keys):
    a, plain = peer("a", keys["a"]), peer("b", keys["b"], tls=False)
    job = GossipJob()
    exchange = ViewExchange(job, "", a, None, None)
    view = View(job=job.fingerprint, base="", version=paceline.__version__, learner="b", members=plain.encoded())
    with pytest.raises(ValueError, match="'b' has no TLS"):
        exchange.answer(view)
