"""A gossip run that was interrupted goes on, and so does a single peer: with its model, and its mass, counted once."""

import asyncio

import pytest
import torch

from paceline import run
from paceline.errors import ConfigError, DiskError, PacelineError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.report import RunFolder
from paceline.topologies.base import Environment
from paceline.topologies.gossip.events import ConsensusMeasured, EpochEnded, GossipEnded, PeerEnded, PeerStarted
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.mass import FULL_MASS, MassEntry, MassState, Push
from paceline.topologies.gossip.peer_state import About, PeerState, of_peer
from paceline.topologies.gossip.resuming import peers_name
from paceline.topologies.gossip.storage import PeerStorage
from paceline.topologies.gossip.topology import TOPOLOGY
from tests.topologies.gossip.masses import total_mass
from tests.topologies.gossip.swarm import Swarm, play
from tests.topologies.gossip.test_virtual import device, of

NAMES = ("a", "b", "c")


class Crash(Exception):
    """Ends the process, as it were."""


def crash_at(kind, epoch):
    def watch(event):
        if isinstance(event, kind) and event.epoch == epoch:
            raise Crash

    return watch


def job(**changes):
    rules = {
        "epochs": 8,
        "batch_size": 32,
        "patience_seconds": 0.5,
        "data": DataSpec(name="digits"),
        "model": ModelSpec(name="two-nn"),
        "optimizer": OptimizerSpec(name="SGD", options={"lr": 0.05, "momentum": 0.9}),
    }
    return GossipJob(**{**rules, **changes})


def fleet(**of_last):
    return VirtualFleet([device("a"), device("b", 700), device("c", 500), device("d", 400, **of_last)])


# A whole run.

VARIANTS = {
    "mixing": {},
    "push-sum": {"exchange": "push-sum", "push_probability": 0.3},
    "overlaps": {"overlaps": True},
    "int8": {"compression": "int8"},
}


@pytest.mark.parametrize("rules", VARIANTS.values(), ids=VARIANTS)
def test_a_run_of_all_peers_goes_on_where_it_was(rules, tmp_path):
    whole = run.train(job(**rules), fleet(), folder=tmp_path / "whole", progress=False)
    with pytest.raises(Crash):
        run.train(
            job(**rules), fleet(), folder=tmp_path / "run", callbacks=[crash_at(ConsensusMeasured, 5)], progress=False
        )
    resumed = []
    ended = run.resume(tmp_path / "run", fleet(), callbacks=[resumed.append], progress=False)
    kept = list(RunFolder.open(ended.folder).events())
    assert [event.at for event in kept] == sorted(event.at for event in kept)
    assert min(event.epoch for event in of(PeerStarted, resumed)) > 2
    trained = [(event.learner, event.epoch) for event in of(EpochEnded, kept)]
    assert sorted(set(trained)) == sorted((name, epoch) for name in "abcd" for epoch in range(1, 9))
    if rules.get("exchange") != "push-sum":
        assert len(trained) == len(set(trained))
    assert ended.metrics["averaged"] == ("a", "b", "c", "d")
    assert ended.metrics["accuracy"] > whole.metrics["accuracy"] - 0.03
    early = of(ConsensusMeasured, kept)[0]
    after = next(event for event in of(ConsensusMeasured, resumed))
    assert after.metrics["accuracy"] > early.metrics["accuracy"]  # so it did not begin anew
    with pytest.raises(ConfigError, match="the run is over; there is nothing to resume"):
        run.reopen(ended.folder)


def test_all_mass_is_kept_and_comes_back(tmp_path):
    rules = {"exchange": "push-sum", "push_probability": 0.9, "patience_seconds": 5.0}
    slow = VirtualFleet([device(name, 500, latency_ms=400) for name in NAMES])  # much is on its way at any moment
    with pytest.raises(Crash):
        run.train(
            job(**rules), slow, folder=tmp_path / "run", callbacks=[crash_at(ConsensusMeasured, 4)], progress=False
        )
    kept = tmp_path / "run" / "checkpoints"
    packed = checkpoints.read(kept / f"{peers_name(checkpoints.rounds(kept)[-1])}.safetensors")
    like = {"float32": packed["a/model/float32"]}
    found = [
        PeerState.unpack(of_peer(name, packed), job=job(**rules).fingerprint, name=name, like=like) for name in NAMES
    ]
    assert sum(state.about.mass.held for state in found) == len(NAMES) * FULL_MASS
    assert len({state.about.mass.held for state in found}) > 1
    events = []
    run.resume(tmp_path / "run", slow, callbacks=[events.append], progress=False)
    last = {event.learner: event.mass for event in of(EpochEnded, events)}
    assert 0 < sum(last.values()) <= len(NAMES)


def test_a_run_that_was_interrupted_before_anything_was_kept_begins_anew(tmp_path):
    with pytest.raises(Crash):
        run.train(job(epochs=2), fleet(), folder=tmp_path / "run", callbacks=[crash_at(EpochEnded, 1)], progress=False)
    events = []
    run.resume(tmp_path / "run", fleet(), callbacks=[events.append], progress=False)
    assert {event.epoch for event in of(PeerStarted, events)} == {1}
    assert of(GossipEnded, events)


def test_the_target_that_a_peer_had_reached_counts_after_a_resume(tmp_path):
    still = {"optimizer": OptimizerSpec(options={"lr": 1e-9}), "epochs": 30, "patience": 6, "watch": "max accuracy"}
    with pytest.raises(Crash):
        run.train(
            job(**still), fleet(), folder=tmp_path / "run", callbacks=[crash_at(ConsensusMeasured, 4)], progress=False
        )
    events = []
    run.resume(tmp_path / "run", fleet(), callbacks=[events.append], progress=False)
    assert {event.reason for event in of(PeerEnded, events)} == {"no improvement"}
    assert max(event.epoch for event in of(EpochEnded, events)) <= 10


def test_peers_that_are_slow_to_come_back_are_kept_again(tmp_path):
    events = []

    def crash_at_next(event):
        events.append(event)
        if isinstance(event, ConsensusMeasured):
            raise Crash

    both, options = VirtualFleet([device("a"), device("b")]), {"callbacks": [crash_at_next], "progress": False}
    with pytest.raises(Crash):
        run.train(job(exchange="push-sum"), both, folder=tmp_path / "run", **options)
    events.clear()
    with pytest.raises(Crash):
        run.resume(tmp_path / "run", VirtualFleet([device("a"), device("b", 5.0)]), **options)
    assert {event.learner for event in of(EpochEnded, events)} == {"a"}
    path = tmp_path / "run" / "checkpoints" / f"{peers_name(events[-1].number)}.safetensors"
    assert {name.split("/")[0] for name in checkpoints.read(path)} == {"a", "b"}


class FullDisk:
    """Receives what is saved, but refuses it for some seconds of virtual time."""

    def __init__(self, first, last):
        self._first, self._last = first, last
        self.saved = {}

    def save(self, key, state, model=None, notes=None):
        if self._first <= asyncio.get_running_loop().time() < self._last:
            raise DiskError("no space is left")
        self.saved[key] = state


def play_on(disk, **rules):
    events = []
    VirtualFleet([device("a", 50), device("b", 50)]).run(
        TOPOLOGY.prepare(job(**rules)), Environment(emit=events.append, save=disk.save)
    )
    return events


def test_peers_go_on_when_the_disk_is_full_for_a_moment():
    disk = FullDisk(20, 50)
    events = play_on(disk)
    measured = [event for event in of(ConsensusMeasured, events) if event.epoch < 8]
    assert not [event for event in measured if 20 <= event.at < 50]
    assert {peers_name(event.number) for event in measured} <= set(disk.saved)  # so it can be resumed
    assert max(event.at for event in measured) > 50
    assert of(EpochEnded, [event for event in events if 20 <= event.at < 50])
    assert of(GossipEnded, events)


def test_a_disk_that_stays_full_ends_the_run():
    with pytest.raises(DiskError, match="no space is left"):
        play_on(FullDisk(20, 1e9), epochs=30)


# A single peer, with a disk.


def swarm(seed, folder, *, loss=0.2, **rules):
    small = {"epochs": 60, "batch_size": 16, "min_peers": 3, "probe_seconds": 1.0, "patience_seconds": 0.5}
    return Swarm(
        GossipJob(**{**small, "evaluate_samples": 0, "seed": seed, **rules}), loss=loss, seed=seed, disk=folder
    )


def start(swarm, name, life):
    known = [other for other in NAMES[:2] if other != name]
    return swarm.start(name, known, life=life, num_samples=128, samples_per_second=1000.0 + 200 * NAMES.index(name))


def books(swarm):
    """The mass that all peers have, or had when they died, and what is on its way; a peer's newest life counts."""
    accounts = {peer.name: peer._exchange.account for peer in swarm.peers}
    arrived = {transfer for peer in swarm.peers for transfer in peer._exchange.account._arrived}
    held = sum(account.mass + account.waiting for account in accounts.values())
    flying = sum(
        push.mass for account in accounts.values() for push in account.under_way if push.transfer not in arrived
    )
    return held + flying


async def killed_and_back(seed, folder):
    """Peers that push; one dies, and comes back with its disk, maybe twice; all is stopped at some moment."""
    played = swarm(seed, folder, exchange="push-sum", push_probability=0.4)
    for name in NAMES:
        start(played, name, 1)
    name = played.rng.choice(NAMES)
    for life in range(2, 4):
        await asyncio.sleep(played.rng.uniform(0.9, 1.6))
        await played.kill(name)
        await asyncio.sleep(played.rng.uniform(0.0, 0.8))
        start(played, name, life)
    await asyncio.sleep(played.rng.uniform(0.0, 2.0))
    await played.end()
    return played


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 100), marks=pytest.mark.long)], ids=str)
def test_a_peer_that_was_killed_comes_back_with_its_mass_and_none_counts_twice(seeds, tmp_path):
    num_back = num_sent = 0
    for seed in seeds:
        played = play(killed_and_back(seed, tmp_path / str(seed)))
        if any(peer._restored is None and peer._membership.me.life > 1 for peer in played.peers):
            continue  # it was killed before it had begun
        begun = FULL_MASS * len({name for name, mass in played.begun.items() if mass})
        assert books(played) == begun, seed
        num_back += sum(peer._restored is not None for peer in played.peers)
        num_sent += sum(peer._exchange._num_sent for peer in played.peers)
    assert num_back > len(seeds) / 2  # so it was put to the test
    assert num_sent > 10 * len(seeds)


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_all_peers_that_were_killed_go_on_together(exchange, tmp_path):
    async def main():
        played = swarm(1, tmp_path, exchange=exchange)
        for name in NAMES:
            start(played, name, 1)
        await asyncio.sleep(1.9)
        for name in NAMES:
            await played.kill(name)
        before = {name: max(e for n, e in played.models if n == name) for name in NAMES}
        played.events.clear()
        for name in NAMES:
            start(played, name, 2)
        return played, before, await played.results()

    played, before, results = play(main())
    assert min(before.values()) >= 1
    started = {event.learner: event.epoch for event in of(PeerStarted, played.events)}
    assert started == {name: epoch + 1 for name, epoch in before.items()}
    assert {result.averaged for result in results.values()} == {NAMES}
    assert all(event.at < 60 for event in played.events)


async def killed_after_its_last_epoch(folder, exchange, speed_when_back):
    """One of two peers has trained all epochs, the other has not; both are killed, and come back."""
    played = swarm(1, folder, loss=0.0, exchange=exchange, epochs=4, min_peers=2)
    played.start("a", ["b"], life=1, num_samples=128, samples_per_second=2000.0)
    played.start("b", ["a"], life=1, num_samples=128, samples_per_second=40.0)
    while ("a", 4) not in played.models:
        await asyncio.sleep(0.01)
    for name in "ab":
        await played.kill(name)
    assert ("b", 4) not in played.models
    played.start("a", ["b"], life=2, num_samples=128, samples_per_second=speed_when_back)
    played.start("b", ["a"], life=2, num_samples=128)
    return await played.results()


@pytest.mark.parametrize("speed_when_back", [10_000.0, 10.0])
@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_a_peer_that_was_killed_after_its_last_epoch_is_not_waited_for(exchange, speed_when_back, tmp_path):
    going_on = killed_after_its_last_epoch(tmp_path, exchange, speed_when_back)
    results = play(asyncio.wait_for(going_on, 300))
    assert {result.averaged for result in results.values()} == {("a", "b")}


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_who_joins_peers_that_go_on_begins_where_they_are(exchange, tmp_path):
    async def main():
        played = swarm(1, tmp_path, exchange=exchange, min_peers=2)
        for name in NAMES[:2]:
            start(played, name, 1)
        await asyncio.sleep(3.0)
        for name in NAMES[:2]:
            await played.kill(name)
        played.events.clear()
        for name in NAMES[:2]:
            start(played, name, 2)
        start(played, "c", 1)
        await asyncio.sleep(3.0)
        await played.end()
        return {event.learner: event.epoch for event in of(PeerStarted, played.events)}

    started = play(main())
    assert started["c"] >= min(started["a"], started["b"]) > 2


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_a_peer_that_was_away_for_long_keeps_its_mass_and_mixes_what_is_newest(exchange, tmp_path):
    async def main():
        played = swarm(3, tmp_path, exchange=exchange, epochs=80)
        for name in NAMES:
            start(played, name, 1)
        await asyncio.sleep(1.5)
        await played.kill("c")
        before = played.peers[-1]
        await asyncio.sleep(4.0)
        after = start(played, "c", 2)
        await asyncio.sleep(1.0)
        begun = [event.epoch for event in of(PeerStarted, played.events) if event.learner == "c"]
        await played.end()
        return before, after, begun

    before, after, (first, again) = play(main())
    assert first == 1
    if exchange == "mixing":
        assert again > before._progress.epoch + 5
    else:
        assert again == before._progress.epoch + 1
        assert after._restored[1].held == before._exchange.account.state().held > 0


def test_a_peer_whose_clock_was_put_back_is_not_given_the_same_share_again(tmp_path):
    async def main():
        played = Swarm(GossipJob(epochs=60, exchange="push-sum", min_peers=2, evaluate_samples=0), seed=1)
        for name in NAMES[:2]:
            start(played, name, 1)
        await asyncio.sleep(2.0)
        start(played, "c", 50)
        await asyncio.sleep(2.0)
        await played.kill("c")
        start(played, "c", 1)
        await asyncio.sleep(2.0)
        await played.end()
        return played

    played = play(main())
    assert 0 < played.begun["c"] < FULL_MASS
    assert total_mass([peer._exchange.account for peer in played.peers]) == 2 * FULL_MASS


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_a_peer_that_is_told_to_end_finishes_its_epoch_and_keeps_it(exchange, tmp_path):
    async def main():
        played = swarm(1, tmp_path, exchange=exchange)
        for name in NAMES:
            start(played, name, 1)
        await asyncio.sleep(1.9)
        leaving = next(peer for peer in played.peers if peer.name == "c")
        assert leaving._is_in_epoch
        before = leaving._progress.epoch
        await leaving.suspend()
        assert leaving._progress.epoch == before + 1
        await asyncio.sleep(2.0)
        assert leaving._progress.epoch == before + 1  # it begins no other
        await played.kill("c")
        played.events.clear()
        start(played, "c", 2)
        await asyncio.sleep(1.0)
        begun = [event.epoch for event in of(PeerStarted, played.events) if event.learner == "c"]
        await played.end()
        return before, begun[0]

    before, again = play(main())
    assert again >= before + 2


# What is kept.


def test_a_journal_says_what_became_of_the_mass_since_the_snapshot(tmp_path):
    storage = PeerStorage(tmp_path / "x" / "pi.safetensors")
    assert storage.load() is None
    number = storage.begin_journal()
    storage.append(MassEntry("send", "pi/1/1", "b", 6))
    storage.save({"model/float32": torch.zeros(2)}, number)
    for entry in (
        MassEntry("send", "pi/1/2", "b", 3),
        MassEntry("confirm", "pi/1/1"),
        MassEntry("arrive", "b/1/1", "", 100),
        MassEntry("take back", "pi/1/2"),
        MassEntry("send", "pi/1/3", "b", 50),
    ):
        storage.append(entry)
    storage.sync()
    storage.close()
    journal = next((tmp_path / "x").glob("*.journal"))
    journal.write_bytes(journal.read_bytes() + b'12345678 ["send","pi/1/4","b",')  # killed as it wrote
    again = PeerStorage(tmp_path / "x" / "pi.safetensors")
    kept = again.load()
    mass = MassState(10).after(again.entries(kept.first))
    assert mass == MassState(10 - 6 + 100 - 50, (Push("pi/1/3", "b", 50),), ("b/1/1",))


def test_a_snapshot_that_was_not_finished_leaves_the_one_before_and_all_journals(tmp_path):
    path = tmp_path / "pi.safetensors"
    storage = PeerStorage(path)
    storage.save({"model/float32": torch.zeros(2)}, storage.begin_journal())
    storage.append(MassEntry("begin", mass=4))
    storage.begin_journal()  # of a snapshot that is never written
    storage.append(MassEntry("begin", mass=5))
    storage.close()
    again = PeerStorage(path)
    again.append(MassEntry("begin", mass=6))
    again.close()
    last = PeerStorage(path)
    assert MassState(0).after(last.entries(last.load().first)).held == 15
    last.save({"model/float32": torch.zeros(2)}, last.begin_journal())
    assert last.entries(PeerStorage(path).load().first) == []
    last.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job": "other"}, "what pi kept is of another job"),
        ({"name": "other"}, "what was kept is of other, not of pi"),
        ({"parameters": {"float32": torch.zeros(3)}}, "the model that pi kept does not fit: float32 has shape"),
        ({"parameters": {"float32": torch.full((2,), torch.nan)}}, "NaN"),
    ],
)
def test_what_is_not_of_this_peer_is_refused(changes, message):
    parameters = changes.pop("parameters", {"float32": torch.zeros(2)})
    about = About(**{"job": "j", "name": "pi", "epoch": 3, **changes})
    packed = PeerState(about=about, parameters=parameters, trainer={}).packed()
    with pytest.raises(ConfigError, match=message):
        PeerState.unpack(packed, job="j", name="pi", like={"float32": torch.zeros(2)})


def test_a_file_that_is_no_state_of_a_peer_is_refused():
    with pytest.raises(ConfigError, match="what pi kept cannot be read"):
        PeerState.unpack({}, job="j", name="pi", like={})


def test_a_disk_that_cannot_keep_it_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    storage = PeerStorage(tmp_path / "file" / "pi.safetensors")
    with pytest.raises(PacelineError, match="pi.safetensors: what this peer needs to go on cannot be kept"):
        storage.append(MassEntry("begin", mass=1))


def test_when_a_run_is_over_nothing_is_left_to_go_on_from(tmp_path):
    async def main():
        played = swarm(1, tmp_path, epochs=3)
        for name in NAMES:
            start(played, name, 1)
        await played.results()

    play(main())
    assert list(tmp_path.iterdir()) == []
