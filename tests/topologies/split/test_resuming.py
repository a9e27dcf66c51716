"""A split run that was interrupted goes on where it was, with all parts, and ends as one that was not."""

import pytest
import torch

from paceline import run
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning import checkpoints
from paceline.learning.optimizer_memory import load_memory, memory_of, why_no_memory
from paceline.learning.optimizers import OPTIMIZERS, OptimizerSpec
from paceline.report import RunFolder
from paceline.topologies.events import PhaseStarted
from paceline.topologies.split.events import TRUNK, JunctionChanged, SplitEnded, SplitEpochEnded, SplitStarted
from tests.topologies.split.runs import ADAM, SGD, device, farthest, fleet, small_job
from tests.topologies.split.trunk_harness import TrunkHarness

PLAIN = OptimizerSpec(name="SGD", options={"lr": 0.05})


class Crash(Exception):
    """Ends the process, as it were."""


def crash_at(kind, number):
    def watch(event):
        if (
            isinstance(event, kind)
            and getattr(event, "epoch", number) == number
            and getattr(event, "learner", TRUNK) == TRUNK
        ):
            raise Crash

    return watch


def job(**changes):
    """Batches that are large, so that an epoch is short."""
    return small_job(**{"epochs": 4, "batch_size": 256, **changes})


def interrupted(folder, job, kind, number):
    """Run a job up to an event."""
    with pytest.raises(Crash):
        run.train(job, VirtualFleet(fleet()), folder=folder, callbacks=[crash_at(kind, number)], progress=False)


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


RULES = {
    "fpl": {"optimizer": ADAM},
    "fpl, momentum": {"optimizer": SGD},
    "fpl, 8 bits": {"optimizer": PLAIN, "bits": 8},
    "fpl, ahead": {"optimizer": ADAM, "depth": 3},
    "side by side": {"optimizer": SGD, "scheme": "split-learning"},
    "gfl": {"optimizer": ADAM, "scheme": "gfl"},
    "images": {"optimizer": ADAM, "scheme": "images"},
    "schedule": {"optimizer": OptimizerSpec(name="SGD", schedule="cosine", options={"lr": 0.1})},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(rules, tmp_path):
    whole = run.train(job(**rules), VirtualFleet(fleet()), folder=tmp_path / "whole", progress=False)
    interrupted(tmp_path / "run", job(**rules), SplitEpochEnded, 3)
    resumed = []
    ended = run.resume(tmp_path / "run", VirtualFleet(fleet()), callbacks=[resumed.append], progress=False)
    assert resumed[0].first_epoch == 4
    assert resumed[0].at > 0  # time goes on, too
    assert [event.epoch for event in of(SplitEpochEnded, resumed)] == [4]
    assert farthest(ended.state, whole.state) == 0
    assert ended.metrics == whole.metrics
    kept = list(RunFolder.open(ended.folder).events())
    assert [event.epoch for event in of(SplitEpochEnded, kept)] == [1, 2, 3, 4]
    assert [event.metrics for event in of(SplitEpochEnded, kept)][-1] == whole.summary().metrics
    assert ended.report().exists()


@pytest.mark.parametrize(
    ("kind", "number", "first"), [(SplitStarted, 1, 1), (PhaseStarted, 1, 1), (SplitEpochEnded, 1, 2)], ids=str
)
def test_it_may_be_interrupted_at_any_moment(kind, number, first, tmp_path):
    whole = run.train(job(epochs=2), VirtualFleet(fleet()), folder=tmp_path / "whole", progress=False)
    interrupted(tmp_path / "run", job(epochs=2), kind, number)
    resumed = []
    ended = run.resume(tmp_path / "run", VirtualFleet(fleet()), callbacks=[resumed.append], progress=False)
    assert resumed[0].first_epoch == first
    assert farthest(ended.state, whole.state) == 0


def test_an_epoch_without_copies_is_trained_again(tmp_path):
    rules = {"epochs": 5, "backup_epochs": 2}
    whole = run.train(job(**rules), VirtualFleet(fleet()), folder=tmp_path / "whole", progress=False)
    interrupted(tmp_path / "run", job(**rules), SplitEpochEnded, 3)
    resumed = []
    ended = run.resume(tmp_path / "run", VirtualFleet(fleet()), callbacks=[resumed.append], progress=False)
    assert resumed[0].first_epoch == 3
    assert farthest(ended.state, whole.state) == 0


def test_a_cut_that_was_chosen_stays(tmp_path):
    rules = {"cut": "auto", "epochs": 3}
    interrupted(tmp_path / "run", job(**rules), SplitEpochEnded, 2)
    ended = run.resume(tmp_path / "run", VirtualFleet(fleet()), progress=False)
    whole = run.train(job(**rules), VirtualFleet(fleet()), folder=tmp_path / "whole", progress=False)
    assert farthest(ended.state, whole.state) == 0
    assert ended.summary().cut == whole.summary().cut


def test_a_source_that_does_not_come_back_is_masked_and_one_that_comes_new_is_taken_in(tmp_path):
    interrupted(tmp_path / "run", job(), SplitEpochEnded, 1)
    resumed, others = [], [device("b"), device("c", latency_ms=2.2), device("new", joins_at_seconds=1.0)]
    ended = run.resume(tmp_path / "run", VirtualFleet(others), callbacks=[resumed.append], progress=False)
    assert of(SplitEnded, resumed)[-1].epochs == 4
    assert [event.num_sources for event in of(SplitEpochEnded, resumed)][-1] == 3
    assert of(JunctionChanged, resumed)[-1].sources == ("a", "b", "c", "new")
    assert {name.split(".")[1] for name in ended.state if name.startswith("branches.")} == {"a", "b", "c", "new"}


def test_runs_with_nothing_to_go_on_with_say_so(tmp_path):
    run.train(job(epochs=1), VirtualFleet(fleet()), folder=tmp_path / "done", progress=False)
    with pytest.raises(ConfigError, match="done: all 1 epochs are done; there is nothing to resume"):
        run.reopen(tmp_path / "done")
    rules = {"epochs": 9, "target": "accuracy >= 0.2"}
    run.train(job(**rules), VirtualFleet(fleet()), folder=tmp_path / "reached", progress=False)
    with pytest.raises(ConfigError, match=r"target, accuracy >= 0.2, is reached; there is nothing to resume"):
        run.reopen(tmp_path / "reached")
    run.train(job(epochs=2, backup_epochs=0), VirtualFleet(fleet()), folder=tmp_path / "bare", progress=False)
    with pytest.raises(ConfigError, match="bare: backup_epochs is 0, so the trunk kept no copies of the branches"):
        run.reopen(tmp_path / "bare")


@pytest.mark.parametrize("rules", [{}, {"scheme": "gfl"}, {"scheme": "images"}, {"target": "accuracy >= 0.2"}], ids=str)
def test_a_run_whose_last_epoch_was_recorded_only_records_its_end(rules, tmp_path):
    folder = tmp_path / "run"
    whole = run.train(job(epochs=2, **rules), VirtualFleet(fleet()), folder=folder, progress=False)
    (end,) = of(SplitEnded, RunFolder.open(folder).events())
    events, final = folder / "events.jsonl", folder / "checkpoints" / "final.safetensors"
    events.write_text(events.read_text().rpartition('{"event":"split_ended"')[0])
    final.unlink()
    resumed, nobody = [], VirtualFleet([device(name, joins_at_seconds=1e6) for name in "abc"])
    ended = run.resume(folder, nobody, callbacks=[resumed.append], progress=False)
    assert not of(SplitEpochEnded, resumed)
    (again,) = of(SplitEnded, RunFolder.open(folder).events())
    assert (again.reason, again.epochs, again.loss) == (end.reason, end.epochs, end.loss)
    assert farthest(ended.state, whole.state) == 0
    assert farthest(checkpoints.read(final), whole.state) == 0
    assert ended.metrics == whole.metrics
    with pytest.raises(ConfigError, match="there is nothing to resume"):
        run.reopen(folder)


def test_what_is_kept_stays_small_and_a_copy_that_does_not_fit_is_refused(tmp_path):
    interrupted(tmp_path / "run", job(epochs=6), SplitEpochEnded, 4)
    folder = tmp_path / "run" / "checkpoints"
    assert len(list(folder.iterdir())) <= 2 * checkpoints.NUM_KEPT
    path = folder / "round-00004.trunk.safetensors"
    memory = checkpoints.read(path)
    name = next(name for name in memory if name.startswith("copy/a/float32"))
    checkpoints.write(path, {**memory, name: memory[name][1:]})
    with pytest.raises(ConfigError, match="the copy of a does not fit: float32 has shape"):
        run.resume(tmp_path / "run", VirtualFleet(fleet()), progress=False)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizers_go_on_as_if_nothing_had_been(name):
    def net():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))

    def step(module, optimizer, number):
        torch.manual_seed(number)
        optimizer.zero_grad()
        module(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()

    spec, one, two = OptimizerSpec(name=name, options={"lr": 0.01}), net(), net()
    first = spec.make(one.parameters())
    for number in range(3):
        step(one, first, number)
    two.load_state_dict(one.state_dict())
    second = spec.make(two.parameters())
    load_memory(second, two, memory_of(first, one))
    for number in range(3, 6):
        step(one, first, number)
        step(two, second, number)
    assert all(one.state_dict()[key].equal(tensor) for key, tensor in two.state_dict().items())


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        ({"optimizer/2.weight/step": torch.zeros(())}, "there is no 'optimizer/2.weight/step'"),
        ({"optimizer/weight/a b": torch.zeros(())}, "there is no"),
        ({"optimizer/weight/exp_avg": torch.zeros(7)}, "has shape"),
        ({"optimizer/weight/exp_avg": torch.full((2, 3), torch.nan)}, "NaN"),
        ({f"optimizer/weight/k{number}": torch.zeros(()) for number in range(9)}, "9 tensors are too many"),
    ],
)
def test_what_no_optimizer_remembers_is_refused(memory, why):
    assert why in why_no_memory(memory, {"weight": torch.zeros(2, 3)})


def test_a_source_that_was_an_epoch_ahead_of_a_trunk_that_went_back_is_let_in_again(run_virtual):
    """It asked for an epoch after the one that is trained again, and would have waited for ever."""
    harness = TrunkHarness(sources=1, epochs=2)

    async def act(harness):
        source, _ = harness.real_source("a")
        source._last_epoch = 7  # of the trunk that was killed
        await source.run()

    run_virtual(harness.play(act(harness)))
    assert [event.epoch for event in harness.of(SplitEpochEnded)] == [1, 2]
