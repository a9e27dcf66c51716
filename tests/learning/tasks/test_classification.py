"""Classification: both losses, accuracy, and batches and outputs by name."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.tasks import TaskSpec
from paceline.learning.tasks.classification import Classification
from tests.learning.small_tasks import are_equal, fit_model, make_dataset, make_shards, make_spec

OF_SOFTMAX = TaskSpec(loss="cross-entropy-of-softmax")


def of_logits(logits):
    """A model that gives these, whatever it is asked."""
    return lambda *inputs, **named: logits


def random_logits(num_samples=6, num_classes=10):
    return torch.randn(num_samples, num_classes, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("task", [TaskSpec(), OF_SOFTMAX], ids=["logits", "softmax"])
def test_the_mean_loss_is_the_mean_of_the_losses(task):
    task, logits, labels = Classification(make_spec(task=task)), random_logits(), torch.arange(6, dtype=torch.uint8)
    each = task.losses(of_logits(logits), (None, labels))
    assert each.shape == (6,)
    assert each.mean().item() == pytest.approx(task.loss(of_logits(logits), (None, labels)).item())
    alone = [task.loss(of_logits(logits[[row]]), (None, labels[[row]])).item() for row in range(6)]
    assert each.tolist() == pytest.approx(alone)


def test_cross_entropy_of_softmax_has_the_floor_of_the_thesis():
    task = Classification(make_spec(task=OF_SOFTMAX))
    perfect = task.loss(of_logits(torch.eye(10) * 100), (None, torch.arange(10))).item()
    assert perfect == pytest.approx(-math.log(math.e / (math.e + 9)))
    assert perfect == pytest.approx(1.461, abs=5e-4)
    assert task.loss(of_logits(torch.zeros(4, 10)), (None, torch.arange(4))).item() == pytest.approx(math.log(10))


def test_scores_are_those_of_scikit_learn():
    (shard,) = make_shards(50)
    model = fit_model(make_dataset(x=shard.x, y=shard.y))
    loss, metrics = model.evaluate(model.state(), shard)
    with torch.inference_mode():
        shares = model.module(torch.from_numpy(shard.x)).softmax(1).numpy()
    assert loss == pytest.approx(log_loss(shard.y, shares), rel=1e-5)
    assert metrics == {"accuracy": accuracy_score(shard.y, shares.argmax(1))}


class Named(nn.Module):
    """Takes inputs by name, as models of Hugging Face do."""

    def __init__(self, wrap):
        super().__init__()
        self.layer, self._wrap = nn.Linear(2, 2), wrap

    def forward(self, pixels, mask):
        return self._wrap(self.layer(pixels * mask))


def plain():
    return Named(lambda logits: logits)


def with_dict():
    return Named(lambda logits: {"hidden": logits[:, :1], "logits": logits})


def with_first_of_dict():
    return Named(lambda logits: {"scores": logits, "hidden": logits[:, :1]})


def with_object():
    return Named(lambda logits: SimpleNamespace(hidden=None, logits=logits))


def with_tuple():
    return Named(lambda logits: (logits, None))


def by_name(factory, **fields):

    (shard,) = make_shards(12)
    columns = {"pixels": shard.x, "mask": np.ones_like(shard.x), "label": shard.y}
    data = make_dataset("dict", **{name: columns[name] for name in fields.pop("order", columns)})
    model = ModelSpec(import_path=f"{__name__}:{factory.__name__}")
    return fit_model(data, **{"model": model, "allowed": None, **fields}), data.train.take(slice(None))


@pytest.mark.parametrize("factory", [plain, with_dict, with_first_of_dict, with_object, with_tuple])
def test_batches_and_outputs_may_be_by_name(factory):
    model, shard = by_name(factory)
    pixels, _, label = shard
    before, state = model.evaluate(model.state(), shard), model.state()
    expected = nn.functional.cross_entropy(
        torch.from_numpy(pixels) @ state["layer.weight"].T + state["layer.bias"], torch.from_numpy(label).long()
    )
    assert before.loss == pytest.approx(expected.item(), rel=1e-5)
    assert sum(model.minibatches(state, [shard], seed=0, local_epochs=5)) == 60
    assert model.evaluate(model.state(), shard).loss < before.loss


def test_the_target_may_be_named():
    last, shard = by_name(plain)
    named, other = by_name(plain, order=("label", "mask", "pixels"), task=TaskSpec(target="label"))
    assert named.evaluate(last.state(), other) == last.evaluate(last.state(), shard)


def test_the_only_input_of_a_dict_is_as_good_as_that_of_a_pair():
    (shard,) = make_shards(12)
    x = shard.x * 100 + 500
    pair, named = (fit_model(make_dataset(kind, features=x, label=shard.y)) for kind in ("tuple", "dict"))
    start = pair.state()
    for model in (pair, named):
        list(model.minibatches(start, [Shard(x, shard.y)], seed=0, local_epochs=2))
    assert are_equal(pair.state(), named.state())
    with torch.inference_mode():
        assert torch.equal(pair.module(torch.from_numpy(x)), named.module(features=torch.from_numpy(x)))


def test_a_named_model_does_not_take_several_inputs():
    (shard,) = make_shards(4)
    with pytest.raises(ConfigError, match="^model 'two-nn': calling it with samples of shape .* failed: TypeError"):
        fit_model(make_dataset("dict", x=shard.x, mask=shard.x, y=shard.y))


def test_texts_are_classified_by_their_tokens():

    random = np.random.default_rng(0)
    y = random.integers(0, 2, 80)
    x = random.integers(1, 200_000, (80, 9))
    x[:, 4] = 500 + y * 70_000
    fields = {"model": ModelSpec(name="bag-of-tokens"), "optimizer": OptimizerSpec(name="Adam", options={"lr": 0.01})}
    model = fit_model(make_dataset(x=x, y=y), **fields)
    list(model.minibatches(model.state(), [Shard(x, y)], seed=0, local_epochs=8))
    assert model.evaluate(model.state(), Shard(x, y)).metrics["accuracy"] == 1
    moved = Shard(x[:, ::-1], y)
    assert model.evaluate(model.state(), moved).metrics["accuracy"] == 1
