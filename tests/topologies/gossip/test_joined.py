"""Peers in real time over HTTP, as devices run them: here two of them in threads of one process."""

import queue
import threading

import pytest

from paceline.axon import ServerIdentity
from paceline.axon.keys import DeviceKey
from paceline.errors import ConfigError, PacelineError
from paceline.fleets.joined import JoinedFleet
from paceline.fleets.live import ListenOptions
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.topologies.base import Contact, DeviceOptions, Environment, Node
from paceline.topologies.events import MemberListening
from paceline.topologies.gossip.events import EpochEnded, GossipEnded, GossipStarted, PeerLost, PeerStarted, RelayFound
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.topology import TOPOLOGY


class Device:
    """One of two devices, with half of the data of a small job."""

    def __init__(self, name, number, listen, contacts=(), *, key=None, behind_nat=False, **rules):
        small = {"epochs": 3, "min_peers": 2, "probe_seconds": 0.5, "model": ModelSpec(name="two-nn")}
        self.plan = TOPOLOGY.prepare(GossipJob(**{**small, "data": DataSpec(name="digits"), **rules}))
        self.urls, self.events, self.saved = queue.Queue(), [], {}
        self.outcome = None
        self._settings = {
            "name": name,
            "contacts": contacts,
            "trust": {"token": listen.token},
            "fingerprint": listen.identity and listen.identity.fingerprint,
            "key": key,
            "options": DeviceOptions(part=(number, 2), behind_nat=behind_nat),
        }
        self._fleet = JoinedFleet(listen, self.urls.put, make_node=self._make_node)

    def _make_node(self, host):
        return Node(**self._settings, emit=host.hear, now=host.env.now)

    def run(self):
        env = Environment(emit=self.events.append, save=lambda key, state, model: self.saved.update({key: state}))
        self.outcome = self._fleet.run(self.plan, env)

    def start(self):
        """Run in a thread, and return both that and where others reach it."""
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        return thread, Contact(*self.urls.get(timeout=60).split("#"))


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_two_peers_train_over_tls_with_a_token(exchange):
    options = [ListenOptions(port=0, token="S3cret", identity=ServerIdentity.self_made(None)) for _ in range(2)]
    first = Device("a", 1, options[0], exchange=exchange)
    thread, contact = first.start()
    second = Device("b", 2, options[1], [contact], exchange=exchange)
    try:
        second.run()
    finally:
        thread.join(timeout=60)
    assert contact.address.startswith("https://127.0.0.1:")
    for device, name in ((first, "a"), (second, "b")):
        assert device.outcome.metrics["averaged"] == ("a", "b")
        assert device.saved.keys() == {name, "final"}
        assert [type(event) for event in device.events[:2]] == [GossipStarted, MemberListening]
        assert isinstance(device.events[-1], GossipEnded)
        assert ["accuracy" in event.metrics for event in device.events if isinstance(event, EpochEnded)] == [True] * 3
        assert not any(isinstance(event, PeerLost) for event in device.events)
    states = first.outcome.state, second.outcome.state
    assert all((states[0][name] == states[1][name]).all() for name in states[0])


def test_a_peer_behind_nat_trains_over_tls_with_a_token():
    key = DeviceKey.generate()  # both on one device, as here
    first = Device("b", 1, ListenOptions(port=0, token="S3cret", identity=ServerIdentity.self_made(None)), key=key)
    thread, contact = first.start()
    second = Device("a", 2, ListenOptions(port=0, token="S3cret"), [contact], key=key, behind_nat=True)
    try:
        second.run()
    finally:
        thread.join(timeout=60)
    for device in (first, second):
        assert device.outcome.metrics["averaged"] == ("a", "b")
        assert [event.num_exchanges for event in device.events if isinstance(event, EpochEnded)] == [1] * 3
        assert not any(isinstance(event, PeerLost) for event in device.events)
    assert [event.relay for event in second.events if isinstance(event, RelayFound)] == ["b"]
    (started,) = (event for event in second.events if isinstance(event, PeerStarted))
    assert started.address == contact.address


def test_a_peer_behind_nat_needs_one_to_join():
    with pytest.raises(ConfigError, match="a peer behind NAT joins one that can be called"):
        Device("a", 1, ListenOptions(port=0), key=DeviceKey.generate(), behind_nat=True).run()


def test_a_peer_behind_nat_needs_a_key():
    contact = Contact("http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="a peer behind NAT needs a key"):
        Device("a", 1, ListenOptions(port=0), [contact], behind_nat=True).run()


def test_a_wrong_token_is_reported():
    thread, contact = Device("a", 1, ListenOptions(port=0, token="S3cret")).start()
    with pytest.raises(PacelineError, match="no peer could be joined: .*the token is wrong"):
        Device("b", 2, ListenOptions(port=0, token="guess"), [contact]).run()
    Device("b", 2, ListenOptions(port=0, token="S3cret"), [contact]).run()  # it has been waiting for this one
    thread.join(timeout=60)


def test_a_peer_needs_data():
    plan = Device("a", 1, ListenOptions()).plan
    with pytest.raises(ConfigError, match="say which data this peer has by --data: I/N"):
        plan.member(Node(name="a"), None)
