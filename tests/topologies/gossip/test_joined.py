"""Peers in real time over HTTP, as devices run them: here two of them in threads of one process."""

import json
import queue
import threading

import pytest

from paceline.axon import ServerIdentity
from paceline.axon.keys import DeviceKey, short
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

    def __init__(self, name, number, listen, contacts=(), *, key=None, behind_nat=False, folder=None, **rules):
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
        self._folder = folder
        self._fleet = JoinedFleet(listen, self.urls.put, make_node=self._make_node)

    def _make_node(self, host):
        return Node(**self._settings, emit=host.hear, now=host.env.now)

    def run(self):
        def save(key, state, *_):
            self.saved[key] = state

        env = Environment(emit=self.events.append, save=save, folder=self._folder)
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


def test_a_wrong_token_or_job_is_reported_and_who_joins_is_recorded(tmp_path):
    keys = [DeviceKey.generate() for _ in range(2)]
    thread, contact = Device("a", 1, ListenOptions(port=0, token="S3cret"), key=keys[0], folder=tmp_path).start()
    with pytest.raises(PacelineError, match="no peer could be joined: .*the token is wrong"):
        Device("b", 2, ListenOptions(port=0, token="guess"), [contact], key=keys[1]).run()
    with pytest.raises(PacelineError, match="no peer could be joined: .*this peer trains another job"):
        Device("c", 2, ListenOptions(port=0, token="S3cret"), [contact], key=keys[1], epochs=4).run()
    last = Device("b", 2, ListenOptions(port=0, token="S3cret"), [contact], key=keys[1])
    last.run()  # it has been waiting for this one
    thread.join(timeout=60)
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    address = next(event.address for event in last.events if isinstance(event, MemberListening))
    (joined,) = (line for line in lines if line["what"] == "join")
    assert (joined["name"], joined["key"], joined["detail"]) == ("b", short(keys[1].public), address)
    refused = [line for line in lines if line["what"] == "refusal"]
    assert {line["address"] for line in refused} == {"127.0.0.1"}
    assert refused[0]["detail"] == "401 for /"
    assert "this peer trains another job" in refused[-1]["detail"]
    assert "S3cret" not in str(lines)


def test_a_peer_needs_data():
    plan = Device("a", 1, ListenOptions()).plan
    with pytest.raises(ConfigError, match="say which data this peer has by --data: I/N"):
        plan.member(Node(name="a"), None)
