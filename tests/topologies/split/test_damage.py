"""A split run goes on after the newest epoch of which all is whole, and says what was lost."""

import random
import re
import shutil

import pytest

from paceline import run
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.report import RunFolder
from paceline.topologies.events import StateLost
from paceline.topologies.split.events import SplitEpochEnded
from paceline.topologies.split.resuming import memory_name
from tests.topologies.damage import add_garbage_to, copied, damage_at_random, delete, flip, halve, put_garbage_into
from tests.topologies.split.runs import farthest, fleet, small_job
from tests.topologies.split.test_resuming import Crash, crash_at, of

JOB = small_job(epochs=6, batch_size=256, patience=9, watch="max accuracy")
LAST = 5  # epoch that ended before the run was interrupted; 3 to 5 are kept


class Interrupted:
    """A run that was interrupted, what all epochs led to when nothing happens to it, and what each did."""

    def __init__(self, folder):
        self.folder = folder / "interrupted"
        self.learned = {}

        def keep(event):
            if isinstance(event, SplitEpochEnded):
                self.learned[event.epoch] = checkpoints.load(folder / "whole/checkpoints", event.epoch)

        self.whole = run.train(JOB, VirtualFleet(fleet()), folder=folder / "whole", callbacks=[keep], progress=False)
        with pytest.raises(Crash):
            run.train(
                JOB,
                VirtualFleet(fleet()),
                folder=self.folder,
                callbacks=[crash_at(SplitEpochEnded, LAST)],
                progress=False,
            )


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    return Interrupted(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def damaged(interrupted, tmp_path):
    return shutil.copytree(interrupted.folder, tmp_path / "run")


NEWEST = f"checkpoints/{checkpoints.round_name(LAST)}.safetensors"
MEMORY = f"checkpoints/{memory_name(LAST)}.safetensors"
DAMAGE = {
    "whole": (lambda path: None, NEWEST, LAST, None),
    "newest flipped": (flip, NEWEST, LAST - 1, r"epoch 5 is lost: .*it is damaged, its digest.*going on after epoch 4"),
    "newest halved": (halve, NEWEST, LAST - 1, r"epoch 5 is lost: .*round-00005.safetensors: cannot be read as"),
    "newest missing": (delete, NEWEST, LAST - 1, r"epoch 5 is lost: .*No such file"),
    "branches flipped": (flip, MEMORY, LAST - 1, r"epoch 5 is lost: .*round-00005.trunk.safetensors: cannot be read"),
    "branches missing": (delete, MEMORY, LAST - 1, r"epoch 5 is lost: .*No such file"),
    "events garbled": (put_garbage_into, "events.jsonl", LAST, r"events.jsonl: .* damaged"),
    "events and more": (add_garbage_to, "events.jsonl", LAST, r"events.jsonl: 2 lines are damaged, the first is line"),
    "events halved": (halve, "events.jsonl", LAST, None),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_it_goes_on_from_the_newest_whole_epoch_to_the_same_end(kind, interrupted, damaged):
    damage, file, number, lost = DAMAGE[kind]
    damage(damaged / file)
    events = []
    ended = run.resume(damaged, VirtualFleet(fleet()), callbacks=[events.append], progress=False)
    assert [event.epoch for event in of(SplitEpochEnded, events)] == list(range(number + 1, JOB.epochs + 1))
    assert farthest(ended.state, interrupted.whole.state) == 0
    assert lost is None or any(re.search(lost, event.what) for event in of(StateLost, events))
    recorded = [event.epoch for event in of(SplitEpochEnded, RunFolder.open(damaged).events())]
    assert recorded == sorted(set(recorded))
    assert set(range(number, JOB.epochs + 1)) <= set(recorded)
    assert ended.report().exists()


def test_an_epoch_that_was_saved_and_not_recorded_is_not_trained_again(damaged):
    events = damaged / "events.jsonl"
    before, _, last = events.read_text().rpartition('{"event":"split_epoch_ended"')
    assert '"epoch":5' in last
    events.write_text(before)
    prepared = run.reopen(damaged)
    prepared.folder.close()
    kept = [event.epoch for event in of(SplitEpochEnded, prepared.folder.events())]
    assert (kept, list(prepared.lost)) == ([1, 2, 3, 4, 5], [])


def test_without_a_whole_epoch_it_is_refused_in_one_line(damaged):
    for path in damaged.glob("checkpoints/*"):
        flip(path)
    with pytest.raises(ConfigError, match="no epoch is whole, so there is nothing to go on from: epoch 5 is lost"):
        run.reopen(damaged)


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 500), marks=pytest.mark.long)], ids=str)
def test_random_damage_is_never_silently_wrong(seeds, interrupted, tmp_path):
    found = []
    for seed in seeds:
        folder = copied(interrupted.folder, tmp_path / "run")
        damage_at_random(folder, random.Random(seed))
        try:
            prepared = run.reopen(folder)
        except ConfigError:
            found.append(None)
            continue
        prepared.folder.close()
        resumed = prepared.plan._resumed
        assert farthest(resumed.state, interrupted.learned[resumed.epoch]) == 0, seed
        found.append(resumed.epoch)
    assert set(found) <= {None, LAST, LAST - 1, LAST - 2}
    assert found.count(LAST) > len(found) / 5
    assert found.count(LAST - 1) > 0
