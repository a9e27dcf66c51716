"""Audits: honest work is believed whatever the hardware, cheats are caught, and nothing a learner sends breaks one."""

import math
import random

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.audits import Auditor, Claim, Portion, Retraining, Verdict
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard, ShardStore
from tests.learning.small_tasks import digits_spec, make_model, make_shards

ADAM = OptimizerSpec(name="Adam", options={"lr": 1e-3})


def auditor_of(model, rate=1.0, **options):
    return Auditor(model=model, rate=rate, chance=random.Random(0), **options)


def trained(model, start, shards, seed=0, local_epochs=1, num_minibatches=None):
    """The parameters after so many minibatches, or all, and the samples in them."""
    num_samples = 0
    minibatches = model.minibatches(model.layout.unpack(start), shards, seed, local_epochs)
    for number, num_batch_samples in enumerate(minibatches, 1):
        num_samples += num_batch_samples
        if number == num_minibatches:
            break
    return model.parameters(), num_samples


def honest_claim(model, shards, seed=0, local_epochs=1, num_minibatches=None):
    start = model.parameters()
    claimed, num_samples = trained(model, start, shards, seed, local_epochs, num_minibatches)
    return Claim(start, claimed, shards, local_epochs, seed, num_samples)


@pytest.fixture(scope="module", params=[OptimizerSpec(), ADAM], ids=["SGD", "Adam"])
def digits(request):
    """A spec, its auditor, and an honest claim: two passes over two shards of digits."""
    spec, data = digits_spec(optimizer=request.param)
    shards = [ShardStore(data.train, 100, 0)[number] for number in range(2)]
    return spec, auditor_of(LocalModel(spec)), honest_claim(LocalModel(spec), shards, seed=7, local_epochs=2)


def in_float64(model):
    model.module.double().register_forward_pre_hook(lambda _, inputs: tuple(x.double() for x in inputs))


def in_halves(model):
    inner = model.module.model
    whole, inner.forward = inner.forward, lambda x: torch.cat([whole(half) for half in x.chunk(2)])


@pytest.mark.parametrize("arithmetic", [in_float64, in_halves])
def test_work_in_other_arithmetic_is_believed(digits, arithmetic):
    spec, auditor, claim = digits
    model = LocalModel(spec)
    arithmetic(model)
    claimed, _ = trained(model, claim.start, claim.shards, claim.seed, claim.local_epochs)
    verdict = auditor.judge(claim._replace(claimed={kind: vector.float() for kind, vector in claimed.items()}))
    assert verdict.is_honest
    assert 0 < verdict.distance < 1e-3


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_work_in_a_short_precision_is_judged_in_that_precision(precision):
    """Halves of minibatches are rounded elsewhere, by more than float32 would excuse."""
    spec, data = digits_spec(precision=precision)
    shards = [ShardStore(data.train, 100, 0)[number] for number in range(2)]
    auditor, model = auditor_of(LocalModel(spec)), LocalModel(spec)
    claim = honest_claim(model, shards, seed=7)
    in_halves(model)
    claimed, _ = trained(model, claim.start, shards, claim.seed)
    verdict = auditor.judge(claim._replace(claimed=claimed))
    assert verdict.is_honest
    assert 0 < verdict.distance < 0.1
    half, _ = trained(LocalModel(spec), claim.start, shards, claim.seed, num_minibatches=3)
    assert not auditor.judge(claim._replace(claimed=half)).is_honest


@pytest.mark.parametrize("percent", [0, 5, 50, 75, 90])
def test_a_part_of_the_work_is_not_all_of_it(digits, percent):
    spec, auditor, claim = digits
    num_minibatches = 14 * percent // 100
    claimed, _ = trained(LocalModel(spec), claim.start, claim.shards, claim.seed, claim.local_epochs, num_minibatches)
    verdict = auditor.judge(claim._replace(claimed=claimed if num_minibatches else claim.start))
    assert not verdict.is_honest
    assert 0.01 < verdict.distance <= 1


def test_work_that_is_not_the_one_asked_for_is_no_work(digits):
    spec, auditor, claim = digits
    model = LocalModel(spec)
    others = {
        "order": {"seed": claim.seed + 1},
        "shards": {"shards": [Shard(shard.x, shard.y[::-1].copy()) for shard in claim.shards]},
        "order of shards": {"shards": claim.shards[::-1]},
        "local_epochs": {"local_epochs": claim.local_epochs - 1},
    }
    for name, changes in others.items():
        other = claim._replace(**changes)
        claimed, _ = trained(model, other.start, other.shards, other.seed, other.local_epochs)
        assert not auditor.judge(claim._replace(claimed=claimed)).is_honest, name


def test_a_learner_that_halted_is_judged_by_what_it_says_it_did():
    shards, model = make_shards(20, 6), make_model(batch_size=4)
    auditor = auditor_of(make_model(batch_size=4))
    claim = honest_claim(model, shards, local_epochs=2, num_minibatches=5)
    assert claim.num_samples == 20
    assert auditor.judge(claim) == Verdict(is_honest=True, distance=0.0)
    more = auditor.judge(claim._replace(num_samples=24))
    assert not more.is_honest
    assert 0 < more.distance < math.inf


@pytest.mark.parametrize("num_samples", [-4, 1, 18, 25, 53, 56, 1 << 70])
def test_training_cannot_end_between_minibatches_nor_after_the_last(num_samples):
    auditor = auditor_of(make_model(batch_size=4))
    claim = honest_claim(make_model(batch_size=4), make_shards(20, 6), local_epochs=2)  # 4, 8 … 24, 26, 30 … 52
    assert auditor.judge(claim).is_honest
    assert auditor.judge(claim._replace(num_samples=num_samples)) == Verdict(is_honest=False, distance=math.inf)


def test_portions_are_trained_one_after_the_other():
    model, auditor = make_model("Counting", optimizer=ADAM), auditor_of(make_model("Counting", optimizer=ADAM))
    first, second = make_shards(12), make_shards(8, 6, seed=1)
    claim = honest_claim(model, first, seed=1, local_epochs=2)._replace(further=[Portion(second, 2)])
    assert claim.num_samples == 24
    assert auditor.judge(claim) == Verdict(is_honest=True, distance=0.0)  # it halted before the second
    for num_minibatches, num_samples in ((3, 12), (None, 28)):
        end, num_more = trained(model, claim.claimed, second, 2, 2, num_minibatches)
        assert num_more == num_samples
        more = claim._replace(claimed=end, num_samples=24 + num_samples)
        assert auditor.judge(more) == Verdict(is_honest=True, distance=0.0)
        assert not auditor.judge(more._replace(claimed=claim.claimed)).is_honest
        assert not auditor.judge(more._replace(shards=second, further=[Portion(first, 2)])).is_honest
    assert auditor.judge(claim._replace(num_samples=24 + 28 + 4)) == Verdict(is_honest=False, distance=math.inf)


@pytest.mark.parametrize(
    "rubbish",
    [
        {},
        {"float32": torch.zeros(3)},
        {"float32": torch.zeros(4, dtype=torch.float64)},
        {"float32": torch.zeros(4), "int64": torch.zeros(1, dtype=torch.int64)},
        {"float32": torch.tensor([0.0, 0.0, 0.0, math.nan])},
        {"float32": torch.full((4,), math.inf)},
    ],
)
def test_rubbish_is_no_work(rubbish):
    auditor, claim = auditor_of(make_model()), honest_claim(make_model(), make_shards(8))
    assert auditor.judge(claim._replace(claimed=rubbish)) == Verdict(is_honest=False, distance=math.inf)


def test_what_the_orchestrator_gets_wrong_is_its_error():
    auditor, claim = auditor_of(make_model()), honest_claim(make_model(), make_shards(8))
    for wrong in (claim._replace(shards=[]), claim._replace(start={"float32": torch.zeros(9)})):
        with pytest.raises(ConfigError):
            auditor.judge(wrong)


# Values that are not trained.


@pytest.mark.parametrize(
    "false",
    [("0.weight", "2.weight"), ("2.bias",), ("1.running_mean", "1.running_var"), ("1.num_batches_tracked",)],
    ids=", ".join,
)
def test_statistics_and_parameters_do_not_hide_each_other(false):
    """The statistics of large samples move much farther than any parameter, and the counter farther than a bias."""
    shards = [Shard(1e4 * shard.x, shard.y) for shard in make_shards(20)]
    auditor, claim = auditor_of(make_model("Counting")), honest_claim(make_model("Counting"), shards, local_epochs=2)
    layout = make_model("Counting").layout
    assert auditor.judge(claim) == Verdict(is_honest=True, distance=0.0)
    state, start = layout.unpack(claim.claimed), layout.unpack(claim.start)
    for name in false:
        state[name].copy_(start[name])
    assert not auditor.judge(claim).is_honest


def test_weights_under_two_names_are_trained_weights():
    auditor, claim = auditor_of(make_model("Tied")), honest_claim(make_model("Tied"), make_shards(8))
    nudged = {"float32": claim.claimed["float32"] * (1 + 1e-6)}
    assert auditor.judge(claim._replace(claimed=nudged)).is_honest


# Doubt.


class Edge(nn.Module):
    """Equal inputs with opposite weights are at the very edge of the ReLU: the last digits decide what is trained."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(2, 1, bias=False), nn.Linear(1, 2)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


class Counted(LocalModel):
    """Counts its trainings."""

    num_trainings = 0

    def minibatches(self, *arguments, **keywords):
        self.num_trainings += 1
        return super().minibatches(*arguments, **keywords)


def own_spec(name):
    return msgspec.structs.replace(make_model().spec, model=ModelSpec(import_path=f"{__name__}:{name}"))


def edge_claim(tilt, num_minibatches=None):
    """Of a learner whose hardware takes the first weight to be larger by `tilt`."""
    model = LocalModel(own_spec("Edge"), allowed=None)
    names = {"inner.weight": [[1.0, -1.0]], "outer.weight": [[1.0], [-1.0]], "outer.bias": [0.0, 0.0]}
    start = model.layout.pack({name: torch.tensor(values) for name, values in names.items()})
    tilted = model.layout.unpack({kind: vector.clone() for kind, vector in start.items()})
    tilted["inner.weight"][0, 0] += tilt
    shards = [Shard(np.full((64, 2), 3.0, np.float32), np.arange(64, dtype=np.uint8) % 4 // 3)]
    claimed, _ = trained(model, model.layout.pack(tilted), shards, num_minibatches=num_minibatches)
    return Claim(start, claimed, shards, 1, 0, 64)


def test_a_claim_is_doubted_only_as_far_as_the_last_digits_do_not_matter():
    model = Counted(own_spec("Edge"), allowed=None)
    level, tilted = edge_claim(0.0), edge_claim(1e-6)
    retraining = Retraining(model, level)
    assert retraining.judge(level.claimed) == Verdict(is_honest=True, distance=0.0)
    assert model.num_trainings == 1
    assert retraining.distance(tilted.claimed) > 0.1  # another training altogether
    verdict = retraining.judge(tilted.claimed)
    assert verdict.is_honest
    assert verdict.distance < 1e-3
    assert retraining.spread > 0.1
    assert model.num_trainings == 4
    assert retraining.judge(tilted.claimed) == verdict
    assert model.num_trainings == 4


# Chance.


@pytest.mark.parametrize(("rate", "low", "high"), [(0.0, 0, 0), (0.25, 900, 1100), (1.0, 4000, 4000)])
def test_updates_are_chosen_at_the_rate(rate, low, high):
    auditor = auditor_of(make_model(), rate)
    assert low <= sum(auditor.is_chosen() for _ in range(4000)) <= high


# Models that cannot be trained again.


class Dropping(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 2))


class DroppingInputs(nn.Module):
    """Without a module that tells."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(nn.functional.dropout(x, training=self.training))


@pytest.mark.parametrize("name", ["Dropping", "DroppingInputs"])
def test_models_that_draw_at_random_are_refused_in_one_line(name):
    model = LocalModel(own_spec(name), allowed=None)
    with pytest.raises(ConfigError, match=f"^model '.*:{name}' draws at random while it trains, as dropout") as caught:
        auditor_of(model)
    assert "\n" not in str(caught.value)
