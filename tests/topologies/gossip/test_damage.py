"""Peers go on from the newest state that is whole, whatever became of their files, and say what was lost."""

import asyncio
import random
import re
import shutil

import pytest
import torch

from paceline import run
from paceline.errors import ConfigError
from paceline.learning import checkpoints
from paceline.report import RunFolder
from paceline.topologies.events import StateLost
from paceline.topologies.gossip.events import ConsensusMeasured, EpochEnded, PeerStarted
from paceline.topologies.gossip.mass import FULL_MASS, MassEntry, MassState
from paceline.topologies.gossip.observer import Consensus
from paceline.topologies.gossip.resuming import peers_name
from paceline.topologies.gossip.storage import PeerStorage
from tests.topologies.damage import add_garbage_to, copied, damage_at_random, delete, flip, halve, put_garbage_into
from tests.topologies.gossip.swarm import play
from tests.topologies.gossip.test_resuming import NAMES, Crash, books, fleet, job, start, swarm
from tests.topologies.gossip.test_virtual import of

LAST = 5  # moment that was kept before the run was interrupted; 3 to 5 still are


# All peers of a virtual fleet.


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    def crash(event):
        if isinstance(event, ConsensusMeasured) and event.number == LAST:
            raise Crash

    folder = tmp_path_factory.mktemp("runs") / "interrupted"
    with pytest.raises(Crash):
        run.train(job(exchange="push-sum"), fleet(), folder=folder, callbacks=[crash], progress=False)
    return folder


@pytest.fixture
def damaged(interrupted, tmp_path):
    return shutil.copytree(interrupted, tmp_path / "run")


MEAN = f"checkpoints/{checkpoints.round_name(LAST)}.safetensors"
PEERS = f"checkpoints/{peers_name(LAST)}.safetensors"
DAMAGE = {
    "whole": (lambda path: None, PEERS, LAST, None),
    "peers flipped": (flip, PEERS, LAST - 1, r"state 5 is lost: .*it is damaged, its digest.*going on after state 4"),
    "peers halved": (halve, PEERS, LAST - 1, r"state 5 is lost: .*round-00005.peers.safetensors: cannot be read as"),
    "peers missing": (delete, PEERS, LAST - 1, r"state 5 is lost: .*No such file"),
    "average flipped": (flip, MEAN, LAST - 1, r"state 5 is lost: .*round-00005.safetensors: cannot be read"),
    "events garbled": (put_garbage_into, "events.jsonl", LAST, r"events.jsonl: .* damaged"),
    "events and more": (add_garbage_to, "events.jsonl", LAST, r"events.jsonl: 2 lines are damaged, the first is line"),
    "events halved": (halve, "events.jsonl", LAST, None),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_all_go_on_from_the_newest_moment_that_is_whole(kind, damaged):
    damage, file, number, lost = DAMAGE[kind]
    damage(damaged / file)
    events = []
    ended = run.resume(damaged, fleet(), callbacks=[events.append], progress=False)
    assert of(ConsensusMeasured, events)[0].number == number + 1
    assert min(event.epoch for event in of(PeerStarted, events)) > 1
    assert ended.metrics["averaged"] == ("a", "b", "c", "d")
    assert lost is None or any(re.search(lost, event.what) for event in of(StateLost, events))
    recorded = [event.number for event in of(ConsensusMeasured, RunFolder.open(damaged).events())]
    assert recorded == sorted(set(recorded))
    assert ended.report().exists()


def test_a_moment_that_was_kept_and_not_recorded_is_gone_on_from(damaged):
    events = damaged / "events.jsonl"
    events.write_text(events.read_text().rpartition('{"event":"consensus_measured"')[0])
    prepared = run.reopen(damaged)
    prepared.folder.close()
    kept = [event.number for event in of(ConsensusMeasured, prepared.folder.events())]
    assert (kept, list(prepared.lost)) == ([1, 2, 3, 4, 5], [])


def test_without_a_whole_moment_it_is_refused_in_one_line(damaged):
    for path in damaged.glob("checkpoints/*"):
        flip(path)
    with pytest.raises(ConfigError, match="no state is whole, so there is nothing to go on from: state 5 is lost"):
        run.reopen(damaged)


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 500), marks=pytest.mark.long)], ids=str)
def test_random_damage_is_never_silently_wrong(seeds, interrupted, tmp_path):
    kept = {
        number: checkpoints.read(interrupted / "checkpoints" / f"{peers_name(number)}.safetensors")
        for number in range(LAST - 2, LAST + 1)
    }
    found = []
    for seed in seeds:
        folder = copied(interrupted, tmp_path / "run")
        damage_at_random(folder, random.Random(seed))
        try:
            prepared = run.reopen(folder)
        except ConfigError:
            found.append(None)
            continue
        prepared.folder.close()
        number = prepared.plan._num_measured
        found.append(number)
        assert all(tensor.equal(kept[number][name]) for name, tensor in prepared.plan._kept.items()), seed
    assert set(found) <= {None, *kept}
    assert found.count(LAST) > len(found) / 5
    assert found.count(LAST - 1) > 0


def test_what_is_kept_has_a_number_that_grows_though_the_mean_epoch_falls():
    """A peer that was far ahead is gone."""
    events, kept = [], []

    def keep(measured, mean):
        kept.append(measured)
        return len(kept) != 2  # a disk that is full for a moment

    consensus = Consensus(events.append, lambda: 1.0, lambda mean: None, keep, num_measured=7)
    model = {"float32": torch.zeros(2)}
    consensus.add("far", 9, model)
    consensus.resume("near", 1, model)
    consensus.forget("far")
    consensus.add("near", 2, model)
    consensus.add("near", 3, model)
    assert [(event.number, event.epoch) for event in kept] == [(8, 9), (9, 2), (9, 3)]
    assert events == [kept[0], kept[2]]


# A single peer, with a disk.


def a_peer_that_comes_back(damage, folder, exchange="push-sum"):
    """One of three dies, its files are damaged, and it comes back; returns all, and the epochs it had and has."""

    async def main():
        played = swarm(1, folder, loss=0.0, exchange=exchange, push_probability=0.4)
        for name in NAMES:
            start(played, name, 1)
        await asyncio.sleep(1.5)
        await played.kill("c")
        before = played.peers[-1]._progress.epoch
        damage(folder)
        played.events.clear()
        start(played, "c", 2)
        await asyncio.sleep(1.0)
        begun = [event.epoch for event in of(PeerStarted, played.events) if event.learner == "c"]
        await played.end()
        return played, before, begun[0]

    return play(main())


@pytest.mark.parametrize("damage", [flip, halve, delete])
def test_a_peer_whose_state_is_damaged_goes_on_from_the_one_before_with_all_its_mass(damage, tmp_path):
    played, before, first = a_peer_that_comes_back(lambda folder: damage(folder / "c.safetensors"), tmp_path)
    assert first == before  # it trains its last epoch again
    assert books(played) == len(NAMES) * FULL_MASS
    (said,) = of(StateLost, played.events)
    assert re.search(r"^c: .*c.safetensors: cannot be read as.*going on from the state before it, after ep", said.what)
    assert of(EpochEnded, played.events)


def test_a_peer_that_mixes_needs_no_journal(tmp_path):
    def damage(folder):
        for path in folder.glob("c.safetensors.*.journal"):
            path.unlink()

    played, before, first = a_peer_that_comes_back(damage, tmp_path, "mixing")
    assert first >= before
    assert not of(StateLost, played.events)


def newest_journal(folder):
    return max(folder.glob("*.journal"), key=lambda path: int(path.name.split(".")[-2]))


def test_a_peer_of_unknown_mass_is_refused_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"so what mass the peer has is not known; delete c.safetensors\* to have it"):
        a_peer_that_comes_back(lambda folder: newest_journal(folder).unlink(), tmp_path)


def stored(folder):
    """Keep three snapshots, with pushes between; returns what the mass was before the last, and at the end."""
    storage = PeerStorage(folder / "pi.safetensors")
    entries = [MassEntry("begin", mass=1 << 20)]
    storage.append(entries[0])
    for number in range(3):
        packed = {"number": torch.tensor(number), "mass": torch.tensor(MassState(0).after(entries).held)}
        journal = storage.begin_journal()
        storage.save(packed, journal)
        for push in range(3):
            entries.append(MassEntry("send", f"pi/{number}/{push}", "b", 1 << (3 * number + push)))
            storage.append(entries[-1])
    storage.close()
    return MassState(0).after(entries).held


def test_what_is_read_of_damaged_files_is_right_or_refused(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    held = stored(whole)
    outcomes = []
    for seed in range(300):
        folder = copied(whole, tmp_path / "damaged")
        chosen = damage_at_random(folder, random.Random(seed))
        storage = PeerStorage(folder / "pi.safetensors")
        try:
            kept = storage.load()
            entries = storage.entries(kept.first) if kept is not None else []
        except ConfigError:
            outcomes.append("refused")
            continue
        if kept is None:
            outcomes.append("nothing")
            continue
        is_cut = any(path.suffix == ".journal" for path in chosen)  # what is cut at the end was never acted upon
        mass = MassState(int(kept.state["mass"])).after(entries).held
        assert mass == held or (is_cut and mass > held), seed
        assert kept.damage is None or int(kept.state["number"]) == 1, seed
        outcomes.append("whole" if kept.damage is None else "before")
    assert {"refused", "whole", "before"} <= set(outcomes)


def test_a_line_of_a_journal_with_another_digit_is_noticed(tmp_path):
    stored(tmp_path)
    journal = newest_journal(tmp_path)
    journal.write_bytes(journal.read_bytes().replace(b"64", b"65"))
    storage = PeerStorage(tmp_path / "pi.safetensors")
    with pytest.raises(ConfigError, match=r"4.journal, line 1 is damaged \(its checksum is another\), so what mass"):
        storage.entries(storage.load().first)


def test_what_is_whole_stays_after_it_was_gone_on_from(tmp_path):
    held = stored(tmp_path)
    path = tmp_path / "pi.safetensors"
    flip(path)
    storage = PeerStorage(path)
    kept = storage.load()
    storage.save({**kept.state, "mass": torch.tensor(held)}, storage.begin_journal())
    storage.close()
    flip(path)
    again = PeerStorage(path)
    kept = again.load()
    assert kept.damage is not None
    assert MassState(int(kept.state["mass"])).after(again.entries(kept.first)).held == held
    again.discard()
    assert list(tmp_path.iterdir()) == []
