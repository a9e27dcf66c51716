"""Peers in homes behind routers, which let nobody in, as processes: they train along, and outlive their relay."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from paceline.fleets.testbed import devices, network, tools
from paceline.fleets.testbed.testbed import build_testbed
from paceline.learning import checkpoints
from paceline.topologies.events import MemberListening
from paceline.topologies.gossip.events import EpochEnded, PeerEnded, PeerLost, RelayFound
from paceline.topologies.gossip.prepared import prepare_job
from paceline.topologies.job_files import load_job
from tests.topologies.gossip.processes import PeerProcess

EPOCHS = 15
PORT = 7299
JOB = f"""\
[gossip]
epochs = {EPOCHS}
graph = "full"
batch_size = 8
min_peers = 4
probe_seconds = 1
patience_seconds = 5
evaluate_samples = 100
[model]
name = "two-nn"
[optimizer]
name = "SGD"
lr = 0.05
[data]
name = "digits"
"""
# As in homes: what is inside may call out, and nothing from outside gets in.
ROUTER = """
table ip router {
  chain masquerading { type nat hook postrouting priority srcnat; oifname "eth0" masquerade; }
  chain forwarding {
    type filter hook forward priority filter; policy drop;
    iifname "inside" accept
    ct state established,related accept
  }
}
"""


@pytest.fixture
def needs_nft(needs_root):
    if shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        reason = "no nft on this machine: peers behind NAT are not tested; install nftables"
        if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def build_home(place, router):
    """Put a home behind a device of a testbed, which becomes its router; returns what runs a command in there."""
    gate, home = network.place_of(place.number, router), f"{network.prefix_of(place.number)}home{router}"
    tools.batch("ip", [f"netns add {home}", f"link add inside netns {gate} type veth peer name eth0 netns {home}"])
    tools.batch("ip", ["addr add 10.77.0.1/24 dev inside", "link set inside up"], namespace=gate)
    lines = ["addr add 10.77.0.2/24 dev eth0", "link set eth0 up", "link set lo up", "route add default via 10.77.0.1"]
    tools.batch("ip", lines, namespace=home)
    routing = "echo 1 > /proc/sys/net/ipv4/ip_forward && PATH=$PATH:/usr/sbin:/sbin nft -f -"
    subprocess.run([*place.prefix(router), "sh", "-c", routing], input=ROUTER, text=True, check=True)
    inside = list(place.prefix(router))
    inside[1] = f"--net=/var/run/netns/{home}"
    return inside


def is_reached(prefix, address):
    """Whether a connection from there gets through."""
    script = f"import socket; socket.create_connection(({address!r}, {PORT}), 2)"
    return subprocess.run([*prefix, sys.executable, "-c", script], capture_output=True).returncode == 0


@pytest.mark.long
def test_peers_behind_nat_train_along_and_outlive_their_relay(needs_nft, tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    peers = []
    places = [devices.TestbedDevice(name=name) for name in ("relay-1", "relay-2", "router-1", "router-2")]
    with build_testbed(places) as place:
        homes = [build_home(place, router) for router in (3, 4)]

        def start(name, part, prefix, *others, options):
            peers.append(PeerProcess(tmp_path, name, f"{part}/4", *others, prefix=prefix, options=options))
            return peers[-1]

        def listening(number):
            return ("--listen", f"{place.address_of(number)}:{PORT}", "--tls")

        hidden = ("--listen", f"0.0.0.0:{PORT}", "--behind-nat")
        try:
            first = start("relay-1", 1, place.prefix(1), options=listening(1))
            heard = first.wait_for(MemberListening)
            contact = f"{heard.address}#{heard.fingerprint}"
            start("relay-2", 2, place.prefix(2), contact, options=listening(2))
            home = start("home-1", 3, homes[0], contact, options=hidden)
            start("home-2", 4, homes[1], contact, options=hidden)

            home.wait_for(EpochEnded, lambda event: event.epoch >= 3)
            assert is_reached(homes[0], "127.0.0.1")
            assert is_reached(homes[0], place.address_of(2))
            assert not is_reached(place.prefix(1), place.address_of(3))
            assert not is_reached(homes[1], place.address_of(3))
            relay = home.wait_for(RelayFound).relay
            next(peer for peer in peers if peer.name == relay).process.send_signal(signal.SIGKILL)

            left = {peer.name for peer in peers} - {relay}
            for peer in peers:
                if peer.name in left:
                    assert peer.process.wait(timeout=180) == 0, peer.errors()
                    (ended,) = peer.events(PeerEnded)
                    assert set(ended.averaged) == left
                    assert [event.epoch for event in peer.events(EpochEnded)] == list(range(1, EPOCHS + 1))
                    assert {event.other for event in peer.events(PeerLost)} == {relay}
            assert [event.relay for event in home.events(RelayFound)] == [relay, *(left - {"home-1", "home-2"})]
        finally:
            for peer in peers:
                peer.process.kill()
                peer.process.wait()
    prepared = prepare_job(load_job(tmp_path / "job.toml"))
    found = {prepared.evaluate(checkpoints.read(tmp_path / f"{name}.safetensors")).metrics["accuracy"] for name in left}
    assert len(found) == 1  # they agree
    assert found.pop() > 0.8
