"""What peers believe of each other: the newer record wins, rubbish is refused whole, and nobody is talked to death."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.topologies.gossip.figures import Figures
from paceline.topologies.gossip.membership import MAX_ENCODED_BYTES, MAX_MEMBERS, Membership, PeerRecord
from tests.topologies.gossip.answers import record


@pytest.fixture
def changes():
    return []


@pytest.fixture
def membership(changes):
    """That of a peer called a, in its first life, in a job of ten epochs."""
    return Membership(record("a"), lambda one, reason: changes.append((one.name, one.status, reason)), epochs=10)


def test_a_later_life_wins_over_any_beat(membership, changes):
    membership.merge([record("b", beat=100, status="dead"), record("b", life=2)])
    assert membership.get("b").life == 2
    assert changes == [("b", "alive", "")]  # of one that was never there, nobody needs to hear that it is gone


def test_death_wins_at_the_same_beat_and_goodbye_over_death(membership, changes):
    membership.merge([record("b", beat=3)])
    membership.declare_dead("b", "it does not answer")
    membership.merge([record("b", beat=3)])
    assert membership.get("b").status == "dead"
    membership.merge([record("b", beat=3, status="left")])
    assert membership.get("b").status == "left"
    assert changes == [("b", "alive", ""), ("b", "dead", "it does not answer")]


def test_a_peer_is_not_passed_on_before_it_can_be_called():
    membership = Membership(PeerRecord(name="a", address="", life=1))
    other = Membership(record("b"))
    other.merge_encoded(membership.encoded())
    assert other.get("a") is None
    membership.amend(address="http://a:1")
    other.merge_encoded(membership.encoded())
    assert other.get("a").address == "http://a:1"


def test_records_without_an_address_or_beyond_the_job_are_not_believed(membership):
    membership.merge([record("b", address=""), record("c", epoch=11), record("d", first_epoch=12)])
    assert [one.name for one in membership.everybody()] == ["a"]
    membership.merge([record("e", epoch=10, first_epoch=11)])  # it was interrupted when it had trained all
    assert [one.name for one in membership.everybody()] == ["a", "e"]


def figures(**changes):
    return {"learner": "b", "samples_per_second": 1.0, "num_samples": 1, "epoch": 0, **changes}


HOSTILE = {
    "a name with a line end": {"name": "b\n"},
    "a name without an end": {"name": "b" * 65},
    "another scheme": {"address": "file:///etc/passwd"},
    "an address with a line end": {"address": "http://b:1\r\nHost: c"},
    "a life beyond all": {"life": (1 << 63) - 1},
    "another status": {"status": "undead"},
    "too many parts": {"parts": list(range(1000))},
    "figures of another": {"figures": figures(learner="c")},
    "figures without an end": {"figures": figures(num_samples=1 << 60)},
    "figures that are none": {"figures": figures(samples_per_second=float("nan"))},
}


@pytest.mark.parametrize("changes_made", HOSTILE.values(), ids=HOSTILE)
def test_rubbish_is_refused_with_all_that_came_with_it(membership, changes_made):
    fine = msgspec.to_builtins(record("c"))
    with pytest.raises(ValueError, match="malformed"):
        membership.merge_encoded(msgspec.msgpack.encode([fine, {**msgspec.to_builtins(record("b")), **changes_made}]))
    assert membership.get("c") is None


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.sampled_from([field.name for field in msgspec.structs.fields(PeerRecord)])


@given(st.binary(max_size=100) | ANYTHING.map(msgspec.msgpack.encode))
def test_no_bytes_do_any_harm(encoded):
    membership = Membership(record("a"))
    with contextlib.suppress(ValueError):
        membership.merge_encoded(encoded)
    assert membership.living() == [record("a")]


@given(st.lists(st.dictionaries(FIELDS, ANYTHING, max_size=4), max_size=4))
def test_no_record_does_any_harm(several):
    membership = Membership(record("a"), epochs=10)
    encoded = [{**msgspec.to_builtins(record(f"b{number}")), **changes} for number, changes in enumerate(several)]
    with contextlib.suppress(ValueError):
        membership.merge_encoded(msgspec.msgpack.encode(encoded))
    assert membership.me.is_living
    other = Membership(record("c"))
    other.merge_encoded(membership.encoded())  # whatever it believes, others understand
    assert {one.name for one in other.everybody()} >= {"a", "c"}


def test_only_so_many_are_kept_in_mind_and_what_is_known_of_them_fits_into_a_message(membership):
    largest = {
        "address": "http://" + "b" * 290,
        "fingerprint": "f" * 100,
        "life": 1 << 62,
        "parts": tuple(range(1 << 40, (1 << 40) + 64)),
        "first_epoch": 10,
    }
    long_names = [f"{'ä' * 59}{number}" for number in range(10_000, 10_000 + 2 * MAX_MEMBERS)]
    membership.merge(record(name, **largest, figures=Figures(**figures(learner=name))) for name in long_names)
    assert len(membership.everybody()) == MAX_MEMBERS
    membership.merge([record(long_names[0], **largest, beat=7)])
    assert membership.get(long_names[0]).beat == 7
    assert len(membership.encoded()) <= MAX_ENCODED_BYTES
    other = Membership(record("zz"))
    other.merge_encoded(membership.encoded())
    assert len(other.everybody()) == MAX_MEMBERS


@pytest.mark.parametrize("said", [record("a", status="dead"), record("a", beat=1 << 53, status="left")])
def test_whoever_is_said_to_be_gone_and_lives_contradicts(membership, said):
    membership.merge([said])
    assert membership.me.is_living
    assert membership.me.is_newer_than(said)
    membership.amend(epoch=1)
    other = Membership(record("b"))
    other.merge_encoded(membership.encoded())
    assert other.get("a").epoch == 1


@pytest.mark.parametrize(("life", "life_then"), [(1000, 1001), (1 << 62, 1)])  # none comes after the last of all
def test_a_later_life_of_ones_own_name_is_a_rival_until_it_is_refuted(membership, life, life_then):
    rival = record("a", life=life, address="http://elsewhere:1")
    membership.merge([rival])
    assert membership.rival == rival
    membership.refute(rival)
    assert (membership.me.life, membership.rival) == (life_then, None)


def test_all_watchers_see_every_coming_and_going(membership, changes):
    seen = []
    membership.watch(lambda one, reason: seen.append((one.name, one.status, reason)))
    membership.merge([record("b"), record("b", beat=1), record("c", status="dead")])
    membership.declare_dead("b", "silent")
    membership.merge([record("b", beat=2), record("b", life=2), record("b", life=2, status="left")])
    expected = [("alive", ""), ("dead", "silent"), ("alive", ""), ("alive", ""), ("left", "it said goodbye")]
    assert seen == changes == [("b", *change) for change in expected]


def test_more_than_half_of_the_living_end_the_run():
    me = PeerRecord(name="a", address="http://a", life=1, why_enough="target reached")
    others = [PeerRecord(name=name, address=f"http://{name}", life=1) for name in "bc"]
    membership = Membership(me)
    membership.merge(others)
    assert membership.why_over() is None
    membership.merge([msgspec.structs.replace(others[0], beat=1, why_enough="no improvement")])
    assert membership.why_over() == "no improvement"  # of as many, the first by name
    membership.merge([msgspec.structs.replace(others[1], beat=1, why_enough="target reached")])
    assert membership.why_over() == "target reached"
