"""Who has to go when there is no room for all."""

from dataclasses import dataclass

import pytest

from paceline.axon.transports.http.crowd import MAX_LINGERING, Crowd, network_of
from paceline.axon.transports.http.failures import BURST, PER_SECOND, Failures


@dataclass(eq=False)
class Guest:
    network: str
    accepted_at: float = 0.0
    is_here: bool = True

    def abort(self):
        assert self.is_here
        self.is_here = False


@pytest.fixture
def crowd():
    return Crowd()


@pytest.fixture
def take_in(crowd):
    def take_in(*networks, at=0.0):
        guests = [Guest(network, at) for network in networks]
        for guest in guests:
            crowd.add(guest)
        return guests

    return take_in


@pytest.fixture
def take_in_known(crowd, take_in):
    def take_in_known(count, *, idle):
        guests = take_in(*["known"] * count)
        for guest in guests:
            crowd.set_busy(guest)
            if idle:
                crowd.set_idle(guest)
        return guests

    return take_in_known


def test_strangers_go_first_the_oldest_of_the_largest_network(crowd, take_in, take_in_known):
    known = take_in_known(3, idle=True)
    honest, *flood = take_in("a", "b", "b", "b")
    for stranger in flood[:2]:
        assert crowd.make_room(now=0.0)
        assert not stranger.is_here
    assert honest.is_here and flood[2].is_here and all(guest.is_here for guest in known)


def test_idle_ones_make_room_for_a_few_strangers(crowd, take_in, take_in_known):
    known = take_in_known(20, idle=True)
    strangers = take_in("a", "a")
    crowd.set_busy(known[0])
    crowd.set_idle(known[0])  # no longer the one that is idle longest
    assert crowd.make_room(now=0.0)
    assert [guest.is_here for guest in known].index(False) == 1
    assert all(stranger.is_here for stranger in strangers)


def test_busy_ones_stay_and_newcomers_have_a_moment(crowd, take_in, take_in_known):
    known = take_in_known(20, idle=False)
    (stranger,) = take_in("a", at=10.0)
    assert not crowd.make_room(now=10.5)
    assert stranger.is_here
    assert crowd.make_room(now=11.5)
    assert not stranger.is_here
    assert not crowd.make_room(now=99.0)
    assert all(guest.is_here for guest in known)


@pytest.mark.parametrize("are_taken_in", [True, False])
def test_few_refused_ones_linger(crowd, take_in, are_taken_in):
    networks = ["a"] * (MAX_LINGERING + 2)
    guests = take_in(*networks) if are_taken_in else [Guest(network) for network in networks]
    for guest in guests:
        crowd.let_linger(guest)
    assert [guest.is_here for guest in guests] == [False] * 2 + [True] * MAX_LINGERING


def test_a_closed_connection_is_forgotten_everywhere(crowd, take_in):
    (guest,) = take_in("a")
    crowd.let_linger(guest)
    crowd.remove(guest)
    crowd.remove(guest)
    crowd.set_idle(guest)  # its last answer had been under way
    crowd.shed_strangers(5)
    assert not crowd.make_room(now=99.0)
    assert guest.is_here and not crowd.everyone


def test_one_household_is_one_network():
    assert network_of("10.0.0.2") == "10.0.0.2"
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")


def test_a_flood_of_failures_is_not_answered():
    failures = Failures()
    assert all(failures.is_answered("a", now=0.0) for _ in range(int(BURST)))
    assert not failures.is_answered("a", now=0.0)
    assert failures.is_answered("b", now=0.0)
    assert sum(failures.is_answered("a", now=1.0) for _ in range(1000)) == PER_SECOND


def test_failures_take_bounded_memory():
    failures = Failures()
    for number in range(10_000):
        failures.is_answered(str(number), now=0.0)
    assert len(failures._buckets) <= 4096
