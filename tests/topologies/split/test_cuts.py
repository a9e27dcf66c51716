"""Where to cut: the formula by hand, and the expected seconds against what runs with that cut take."""

import asyncio

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from paceline.errors import ConfigError
from paceline.learning.engines import ThreadEngine
from paceline.learning.models import ModelSpec
from paceline.learning.views import ViewSpec
from paceline.topologies.split import prepared as prepared_module
from paceline.topologies.split.cuts import choose_cut, fastest, measure_cuts, step_seconds
from paceline.topologies.split.events import CutChosen, SplitStarted
from paceline.topologies.split.jobs import AveragingSpec
from paceline.topologies.split.messages import Costs, CutCost
from paceline.topologies.split.prepared import prepare_split
from tests.topologies.split.runs import device, play, small_job, small_split


def costs(forward=0.1, backward=0.2, up=1000.0, down=2000.0, latency=0.04):
    cut = CutCost(forward_seconds=forward, backward_seconds=backward)
    return Costs(cuts={"x": cut}, up_bytes_per_second=up, down_bytes_per_second=down, latency_seconds=latency)


@pytest.mark.parametrize(
    ("sources", "trunk_seconds", "num_bytes", "depth", "expected"),
    [
        # One: forward and backward 0.3, up 0.1 + 0.02, down 0.05 + 0.02, and the trunk.
        ([costs()], 0.05, 100, 1, 0.05 + 0.3 + 0.12 + 0.07),
        # Of two, the one whose trip is the longest.
        ([costs(), costs(forward=0.5)], 0.05, 100, 1, 0.05 + 0.7 + 0.12 + 0.07),
        ([costs(), costs(up=100.0)], 0.05, 100, 1, 0.05 + 0.3 + 1.02 + 0.07),
        # Ahead by several, a share of the trip each, down to what the busiest does.
        ([costs()], 0.05, 100, 2, 0.3),
        ([costs(forward=0.1, backward=0.1)], 0.05, 100, 2, 0.22),
        ([costs()], 0.05, 1000, 64, 1.02),
        ([costs(down=10.0)], 0.05, 100, 64, 10.02),
        ([costs(), costs()], 3.0, 100, 64, 3.0),
    ],
)
def test_a_step_takes_what_the_formula_says(sources, trunk_seconds, num_bytes, depth, expected):
    assert step_seconds("x", sources, trunk_seconds, num_bytes, depth) == pytest.approx(expected)


def test_a_cut_with_fewer_layers_must_be_so_much_faster():
    num_layers = {"c2": 1, "f1": 2, "f2": 3}
    assert fastest({"c2": 10.0, "f1": 10.0, "f2": 10.0}, num_layers) == "f2"
    assert fastest({"c2": 10.0, "f1": 6.0, "f2": 10.0}, num_layers) == "f1"  # 1.5 times 6 is below 10
    assert fastest({"c2": 10.0, "f1": 7.0, "f2": 10.0}, num_layers) == "f2"
    assert fastest({"c2": 4.4, "f1": 7.0, "f2": 10.0}, num_layers) == "c2"  # 2.25 times 4.4 is below 10
    assert fastest({"c2": 4.5, "f1": 7.0, "f2": 10.0}, num_layers) == "f2"


EDGE = device("edge", 200.0, is_server=True, down_mbit=1000, up_mbit=1000)
FLEETS = {
    "slow links": ([device(name, 4000.0, up_mbit=0.5, down_mbit=1, latency_ms=1) for name in "abc"], "5"),
    "slow sources": ([device(name, 300.0, latency_ms=2) for name in "ab"] + [device("c", 500.0)], "3"),
    "a slow trunk": ([*(device(name, 3000.0) for name in "abc"), EDGE], "5"),
}


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("name", FLEETS)
def test_expected_seconds_are_what_runs_take(name, depth):
    devices, shortest = FLEETS[name]
    rules = {"num_samples": 480, "num_test_samples": 50, "depth": depth, "patience_seconds": 60.0}
    (chosen,) = play(small_split(cut="auto", epochs=1, **rules), devices).of(CutChosen)
    assert min(chosen.expected_seconds, key=chosen.expected_seconds.get) == shortest
    assert chosen.cut == fastest(chosen.expected_seconds, {"3": 1, "5": 2})
    taken = {cut: play(small_split(cut=cut, epochs=2, **rules), devices).epochs[-1].seconds for cut in ("3", "5")}
    assert taken.keys() == chosen.expected_seconds.keys()
    assert min(taken, key=taken.get) == shortest
    for cut, seconds in chosen.expected_seconds.items():
        assert seconds == pytest.approx(taken[cut], rel=0.06)


def test_what_is_chosen_is_reported_and_used():
    played = play(small_split(cut="auto", epochs=1), FLEETS["slow links"][0])
    (started,), (chosen,) = played.of(SplitStarted), played.of(CutChosen)
    assert started.num_parameters == {}
    assert chosen.num_parameters == {"branch": 3250 + 1020, "junction": 3 * 400 + 20, "trunk": 210}
    assert played.state["head.layers.5.weight"].shape == (10, 20)
    assert played.state["branches.a.3.weight"].shape == (20, 50)


class Words(nn.Sequential):
    """Takes tokens, and may be cut before either layer that follows."""

    def __init__(self):
        super().__init__(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 3))


DRAW = torch.Generator().manual_seed(0)
TOKENS = torch.randint(9, (64, 3), generator=DRAW)
MANY = TOKENS < 4
OTHER_SAMPLES = {
    "labels of several columns": {"task": "multi-label", "data": (TensorDataset(TOKENS.float(), MANY),) * 2},
    "tokens": {"task": "classification", "model": Words, "data": (TensorDataset(TOKENS, TOKENS[:, 0] % 3),) * 2},
}


@pytest.mark.parametrize("rules", OTHER_SAMPLES.values(), ids=OTHER_SAMPLES)
def test_a_cut_is_chosen_for_samples_of_any_kind(rules):
    prepared = prepare_split(small_job(cut="auto", epochs=1, view=(ViewSpec(kind="plain"),), **rules))
    (chosen,) = play(prepared, FLEETS["slow links"][0]).of(CutChosen)
    assert chosen.cut in prepared.cuts
    measured = asyncio.run(measure_cuts(prepared.terms(1, prepared.cuts), ThreadEngine(), None))
    assert tuple(measured) == prepared.cuts


def test_only_cuts_between_layers_that_learn_and_without_too_large_junctions_are_weighed(monkeypatch):
    assert small_split(cut="auto", model=ModelSpec(name="leaf-cnn")).cuts == ("c2", "f1", "f2")
    assert small_split(cut="auto", model=ModelSpec(name="resnet-8")).cuts == ("block2", "block3", "f1")
    monkeypatch.setattr(prepared_module, "MAX_JUNCTION_PARAMETERS", 3 * 400 + 20)
    assert prepare_split(small_job(cut="auto")).cuts == ("5",)
    monkeypatch.setattr(prepared_module, "MAX_JUNCTION_PARAMETERS", 100)
    with pytest.raises(ConfigError, match="every junction would have more than 100 parameters; name a cut"):
        prepare_split(small_job(cut="auto"))


def test_without_measurements_nothing_can_be_chosen(run_virtual):
    with pytest.raises(ConfigError, match="no source has measured what a cut would cost it; name a cut"):
        run_virtual(choose_cut(small_split(cut="auto"), ["a"], [], None))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"cut": "f9"}, "cut is 'f9'; "),
        ({"scheme": "split-learning", "cut": "2"}, "split learning widens that layer, which must be linear"),
        ({"scheme": "gfl", "averaging": AveragingSpec(layers=("9",))}, "[averaging] layers has '9'; "),
        ({"model": ModelSpec(name="resnet-8"), "cut": "block1"}, "cut is 'block1'; "),
        ({"model": ModelSpec(import_path="tests.learning.own_models:SkippingDigits")}, "SkippingDigits cannot be cut"),
    ],
)
def test_jobs_that_cannot_be_are_refused_in_one_line(rules, said):
    with pytest.raises(ConfigError) as caught:
        prepare_split(small_job(**rules))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
