"""Many peers tell the same: once is enough."""

from paceline.topologies.events import PhaseStarted
from paceline.topologies.gossip.events import (
    DataMissing,
    PeerLost,
    PeerSeen,
    PeerStarted,
    RelayFound,
    StoreBack,
    StoreLost,
)
from paceline.topologies.gossip.progress import News, describe


def started(name, known=()):
    return PeerStarted(at=0, learner=name, address="", epoch=1, num_samples=10, known=known)


def lost(name, other):
    return PeerLost(at=0, learner=name, other=other, reason="silent")


def seen(name, other):
    return PeerSeen(at=0, learner=name, other=other)


def news(*events):
    one = News()
    return [one.is_news(event) for event in events]


def test_a_peer_that_is_gone_is_missed_once_until_it_starts_again():
    events = (started("a"), started("b"), lost("a", "c"), lost("b", "c"), started("c"), lost("b", "c"))
    assert news(*events) == [True, True, True, False, True, True]


def test_whom_a_lone_peer_hears_of_is_news_after_it_began():
    events = (seen("a", "b"), started("a", ("b",)), seen("a", "b"), seen("a", "c"), lost("a", "c"), seen("a", "c"))
    assert news(*events) == [False, True, False, True, True, True]


def test_where_several_are_recorded_each_tells_of_itself():
    own = PhaseStarted(at=0, learner="b", round=0, phase="benchmark")
    assert news(started("a"), own, seen("a", "c"), seen("b", "c")) == [True, False, False, False]


def test_each_relay_that_a_peer_finds_is_news():
    found = [RelayFound(at=0, learner="a", relay=relay, address="http://b:1") for relay in "bcb"]
    assert news(*found) == [True, True, True]
    assert describe(found[0]) == "a takes its calls by way of b"


def test_the_store_is_lost_with_the_first_and_back_with_the_last():
    away = [StoreLost(at=0, learner=name, store="s", reason="r") for name in "ab"]
    back = [StoreBack(at=0, learner=name, store="s") for name in "ab"]
    assert news(*away, *back, away[0], back[1], back[0]) == [True, False, False, True, True, False, True]


def test_missing_data_is_told_once():
    first = [DataMissing(at=0, learner=n, epoch=2, others=("x",), share_failed=0.5, num_samples=5) for n in "ab"]
    more = DataMissing(at=0, learner="a", epoch=3, others=("x", "y"), share_failed=0.7, num_samples=9)
    assert news(*first, more) == [True, False, True]
