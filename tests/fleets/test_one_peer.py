"""Peers in real time over HTTP, as devices run them: here two of them in threads of one process."""

import queue
import threading

import pytest

from paceline.axon import ServerIdentity
from paceline.errors import ConfigError, PacelineError
from paceline.fleets.live import Door
from paceline.fleets.one_peer import OnePeer, Station
from paceline.fleets.peers import GossipLaunch
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.topologies.gossip import GossipJob, Known, make_plan
from paceline.topologies.gossip.events import EpochEnded, PeerLost


@pytest.fixture
def launch():
    """A small job, made ready for one peer, with the events that it will tell."""

    def launch(**rules):
        small = {"epochs": 3, "min_peers": 2, "probe_seconds": 0.5, "model": ModelSpec(name="two-nn")}
        job = GossipJob(**{**small, "data": DataSpec(name="digits"), **rules})
        told = []
        return GossipLaunch(plan=make_plan(job), emit=told.append), told

    return launch


def station(name, door, known=()):
    return Station(name=name, door=door, known=known)


def part(number):
    return lambda plan: plan.holdings(2)[number]


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_two_peers_train_over_tls_with_a_token(launch, exchange):
    urls, ends = queue.Queue(), []
    (first_launch, first_told), (second_launch, second_told) = (launch(exchange=exchange) for _ in range(2))
    doors = [Door(port=0, token="S3cret", identity=ServerIdentity.self_made(None)) for _ in range(2)]
    first = OnePeer(station("a", doors[0]), part(0), urls.put)
    thread = threading.Thread(target=lambda: ends.append(first.run(first_launch)))
    thread.start()
    try:
        url, _, fingerprint = urls.get(timeout=60).partition("#")
        ends.append(OnePeer(station("b", doors[1], [Known(url, fingerprint)]), part(1)).run(second_launch))
    finally:
        thread.join(timeout=60)
    assert url.startswith("https://127.0.0.1:")
    assert [end.averaged for end in ends] == [("a", "b"), ("a", "b")]
    assert all((ends[0].parameters[kind] == ends[1].parameters[kind]).all() for kind in ends[0].parameters)
    for told in (first_told, second_told):
        assert sum(isinstance(event, EpochEnded) for event in told) == 3
        assert not any(isinstance(event, PeerLost) for event in told)


def test_a_wrong_token_is_told(launch):
    urls, failures = queue.Queue(), []
    (waiting_launch, _), (stranger_launch, _) = launch(min_peers=1, epochs=40), launch()
    waiting = OnePeer(station("a", Door(port=0, token="S3cret")), part(0), urls.put)
    thread = threading.Thread(target=lambda: waiting.run(waiting_launch))
    thread.start()
    try:
        known = [Known(urls.get(timeout=60))]
        with pytest.raises(PacelineError, match="no peer could be joined: .*the token is missing or wrong") as caught:
            OnePeer(station("b", Door(port=0, token="guess"), known), part(1)).run(stranger_launch)
        failures.append(caught.value)
    finally:
        thread.join(timeout=60)
    assert len(failures) == 1


def test_a_name_that_cannot_be_is_refused_at_once():
    with pytest.raises(ConfigError, match="name is 'a\\\\nb'; allowed"):
        station("a\nb", Door())
