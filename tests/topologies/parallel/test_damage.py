"""A run goes on from the newest round of which all is whole, whatever became of its files, and says what was lost."""

import collections
import random
import re
import shutil

import pytest
import torch

from paceline import run
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.report import RunFolder
from paceline.topologies.events import StateLost
from paceline.topologies.parallel.events import RoundClosed, RoundOpened
from tests.topologies.damage import add_garbage_to, copied, damage_at_random, delete, flip, halve, put_garbage_into
from tests.topologies.parallel.runs import closed, device, of, small_job

JOB = small_job(rounds=8, aggregation="fedavgm", patience=5, watch="max accuracy")
LAST = 6  # round that closed before the run was interrupted; 4 to 6 have checkpoints
NAMES = ("", ".aggregation")


class Crash(Exception):
    """Ends the process, as it were."""


def fleet():
    return VirtualFleet([device("a", max_shards=2)])


class Interrupted:
    """A run that was interrupted, and what all rounds led to when nothing happens to it."""

    def __init__(self, folder):
        self.folder = folder / "interrupted"
        self._kept = folder / "kept"
        self._kept.mkdir()
        self.whole = run.train(JOB, fleet(), folder=folder / "whole", callbacks=[self._keep(folder)], progress=False)

        def crash(event):
            if isinstance(event, RoundOpened) and event.round == LAST + 1:
                raise Crash

        with pytest.raises(Crash):
            run.train(JOB, fleet(), folder=self.folder, callbacks=[crash], progress=False)

    def _keep(self, folder):
        def watch(event):
            if isinstance(event, RoundClosed):
                for path in (folder / "whole/checkpoints").glob(f"{checkpoints.round_name(event.round)}.*"):
                    shutil.copy(path, self._kept)

        return watch

    def state_after(self, number, name=""):
        return checkpoints.read(self._kept / f"{checkpoints.round_name(number)}{name}.safetensors")

    def copy(self, to):
        return copied(self.folder, to)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    return Interrupted(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def damaged(interrupted, tmp_path):
    return interrupted.copy(tmp_path / "run")


def are_same(state, other):
    return state.keys() == other.keys() and all(tensor.equal(other[name]) for name, tensor in state.items())


def reopened_after(folder, interrupted):
    """Reopen a run; returns the round after which it goes on, once what it goes on from was compared."""
    prepared = run.reopen(folder)
    prepared.folder.close()
    assert [table.name for table in prepared.folder.summary().tables.values() if not table.columns] == []
    number = prepared.plan.first_round - 1
    if number:
        assert are_same(prepared.plan.prepared.state, interrupted.state_after(number))
        assert are_same(prepared.plan.prepared.memory, interrupted.state_after(number, ".aggregation"))
    return number, prepared.lost


NEWEST = f"checkpoints/{checkpoints.round_name(LAST)}.safetensors"
MEMORY = f"checkpoints/{checkpoints.round_name(LAST)}.aggregation.safetensors"
DAMAGE = {
    "whole": (lambda path: None, NEWEST, LAST, None),
    "newest flipped": (flip, NEWEST, LAST - 1, r"round 6 is lost: .*it is damaged, its digest.*going on after round 5"),
    "newest halved": (halve, NEWEST, LAST - 1, r"round 6 is lost: .*round-00006.safetensors: cannot be read as"),
    "newest missing": (delete, NEWEST, LAST - 1, r"round 6 is lost: .*No such file"),
    "memory flipped": (flip, MEMORY, LAST - 1, r"round 6 is lost: .*round-00006.aggregation.safetensors: cannot be"),
    "memory missing": (delete, MEMORY, LAST - 1, r"round 6 is lost: .*No such file"),
    "events halved": (halve, "events.jsonl", LAST, r"the record of \d rounds up to round 6 is lost; the model is not"),
    "events garbled": (
        put_garbage_into,
        "events.jsonl",
        LAST,
        r"events.jsonl: \d lines are damaged, the first is line",
    ),
    "events flipped": (flip, "events.jsonl", LAST, r"events.jsonl: a line is damaged, line \d+"),
    "events and more": (add_garbage_to, "events.jsonl", LAST, r"events.jsonl: 2 lines are damaged, the first is line"),
    "job flipped": (flip, "job.json", LAST, r"run: the job was damaged or changed; it goes on with that which it was"),
    "table flipped": (flip, "metrics.csv", LAST, None),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_it_goes_on_from_the_newest_whole_round_to_the_same_end(kind, interrupted, damaged):
    damage, file, number, lost = DAMAGE[kind]
    damage(damaged / file)
    events = []
    ended = run.resume(damaged, fleet(), callbacks=[events.append], progress=False)
    assert [event.round for event in closed(events)] == list(range(number + 1, JOB.rounds + 1))
    assert are_same(ended.state, interrupted.whole.state)
    said = of(StateLost, events)
    assert bool(said) == (lost is not None)
    assert lost is None or any(re.search(lost, event.what) for event in said)
    recorded = [event.round for event in closed(RunFolder.open(damaged).events())]
    assert recorded == sorted(set(recorded))
    assert set(range(number, JOB.rounds + 1)) <= set(recorded)
    assert ended.summary().rounds


def test_without_a_whole_round_it_is_refused_in_one_line(damaged):
    for path in damaged.glob("checkpoints/*"):
        flip(path)
    before = (damaged / "events.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="run: no round is whole, so there is nothing to go on from: round 6 is lost"):
        run.reopen(damaged)
    assert (damaged / "events.jsonl").read_bytes() == before
    with RunFolder.open(damaged) as folder:
        folder.claim()  # nobody else holds it


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensor: tensor.fill_(float("nan")), "it holds NaN or infinity"),
        (lambda tensor: tensor[:1].clone(), r"has shape \(1,.*\), not"),
        (lambda tensor: tensor.double(), "has type torch.float64, not torch.float32"),
    ],
)
def test_a_whole_file_with_a_wrong_model_is_refused(damaged, change, message):
    path = damaged / NEWEST
    state, header = checkpoints.read_whole(path)
    name = next(name for name, tensor in state.items() if tensor.ndim and tensor.is_floating_point())
    checkpoints.write(path, {**state, name: change(state[name])}, header)
    with pytest.raises(ConfigError, match=f"the checkpoint of round 6 is not one of this job's model: .*{message}"):
        run.reopen(damaged)


def test_damaged_files_are_not_loaded(damaged, tmp_path):
    flip(damaged / NEWEST)
    with pytest.raises(ConfigError, match="it is damaged, its digest is another"):
        run.load(damaged)
    run.reopen(damaged).folder.close()
    assert isinstance(run.load(damaged), torch.nn.Module)  # what is of no use is removed as the run goes on


def try_damage(interrupted, folder, seeds):
    """Damage copies of a run; returns after which rounds they went on, and how many were refused."""
    outcomes = collections.Counter()
    for seed in seeds:
        interrupted.copy(folder)
        damage_at_random(folder, random.Random(seed))
        refusals = []
        try:
            number, _ = reopened_after(folder, interrupted)
        except ConfigError as error:
            number = None
            refusals.append(str(error))
        assert not any("\n" in refusal for refusal in refusals), seed
        outcomes[number] += 1
    return outcomes


def test_random_damage_is_never_silently_wrong(interrupted, tmp_path):
    outcomes = try_damage(interrupted, tmp_path / "run", range(25))
    assert outcomes.keys() <= {None, LAST, LAST - 1, LAST - 2}
    assert outcomes[LAST] > 5


@pytest.mark.long
def test_a_thousand_times_random_damage_is_never_silently_wrong(interrupted, tmp_path):
    outcomes = try_damage(interrupted, tmp_path / "run", range(1000, 2000))
    assert outcomes.keys() <= {None, LAST, LAST - 1, LAST - 2}
    print(outcomes)
