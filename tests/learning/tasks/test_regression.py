"""Regression: losses of standardised targets, and mean errors and R² as scikit-learn has them."""

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score
from torch import nn

from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.tasks import TaskSpec
from tests.learning.small_tasks import fit_model, make_dataset

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(5, 3, (60, 4)).astype(np.float32)
WEIGHTS = RANDOM.normal(0, 40, (4, 2))


def targets(kind):
    y = X @ WEIGHTS + 300
    match kind:
        case "numbers":
            return y[:, 0].astype(np.float32)
        case "rows":
            return y
        case "whole":
            return y[:, 0].round().astype(np.int64)
        case "bytes":
            return np.clip(y[:, 0] / 4, 0, 255).astype(np.uint8)


def fit(y, loss=None, x=X, **fields):
    return fit_model(make_dataset(x=x, y=y), task=TaskSpec(kind="regression", loss=loss), **fields)


def predicted(model, x=X):
    with torch.inference_mode():
        return model.module.eval()(torch.from_numpy(x)).numpy()


@pytest.mark.parametrize("kind", ["numbers", "rows", "whole", "bytes"])
def test_metrics_are_those_of_scikit_learn_in_the_units_of_the_targets(kind):
    y = targets(kind)
    model = fit(y)
    list(model.minibatches(model.state(), [Shard(X, y)], seed=0, local_epochs=3))
    _, metrics = model.evaluate(model.state(), Shard(X, y))
    found = predicted(model)
    assert found.shape == (60, y.ndim if y.ndim == 1 else y.shape[1])
    assert metrics == {
        "mae": pytest.approx(mean_absolute_error(y, found), rel=1e-5),
        "r2": pytest.approx(r2_score(y, found), rel=1e-4),
    }
    assert metrics["r2"] > 0.5
    assert model.metric_names == ("mae", "r2")


@pytest.mark.parametrize("kind", ["numbers", "rows", "whole", "bytes"])
@pytest.mark.parametrize(
    ("loss", "by_hand"),
    [
        ("mse", np.square),
        ("mae", np.abs),
        ("huber", lambda error: np.where(abs(error) < 1, error**2 / 2, abs(error) - 0.5)),
    ],
)
def test_the_loss_is_of_standardised_targets(kind, loss, by_hand):
    y = targets(kind)
    model = fit(y, loss)
    errors = (predicted(model) - y.reshape(60, -1).astype(np.float64)) / y.reshape(60, -1).std(0, dtype=np.float64)
    assert model.evaluate(model.state(), Shard(X, y)).loss == pytest.approx(by_hand(errors).mean(), rel=1e-4)
    losses = np.concatenate(list(model.losses(model.state(), Shard(X, y))))
    np.testing.assert_allclose(losses, by_hand(errors).mean(1), rtol=1e-3, atol=1e-6)


def test_the_loss_of_the_mean_is_1():
    y = targets("numbers")
    model = fit(y)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.zero_()
    loss, metrics = model.evaluate(model.state(), Shard(X, y))
    assert loss == pytest.approx(1, rel=1e-5)
    assert metrics["r2"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("y", [np.full(60, 0.1, np.float32), np.zeros(60), np.full((60, 2), 1e6)])
def test_targets_that_do_not_vary_leave_nothing_to_explain(y):
    model = fit(y)
    loss, metrics = model.evaluate(model.state(), Shard(X, y))
    assert np.isfinite(loss)
    assert metrics["r2"] == 0


class Flat(nn.Module):
    """One number for each sample, without an axis of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)[:, 0]


class Two(nn.Module):
    """Several inputs, and outputs by name."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, a, b):
        return {"logits": self.layer(torch.cat([a, b], 1))}


def own(factory):
    return {"model": ModelSpec(import_path=f"{__name__}:{factory.__name__}"), "allowed": None}


def test_a_model_may_give_a_number_without_an_axis():
    y = targets("numbers")
    model = fit(y, **own(Flat))
    _, metrics = model.evaluate(model.state(), Shard(X, y))
    assert metrics["mae"] == pytest.approx(mean_absolute_error(y, predicted(model)), rel=1e-5)


@pytest.mark.parametrize("structure", ["tuple", "dict"])
def test_several_inputs_reach_the_model_and_outputs_by_name_are_put_into_units(structure):
    y = targets("numbers")
    data = make_dataset(structure, a=X[:, :2], b=X[:, 2:], y=y)
    adam = OptimizerSpec(name="Adam", options={"lr": 0.01})
    model = fit_model(data, task=TaskSpec(kind="regression"), optimizer=adam, **own(Two))
    shard = data.train.take(slice(None))
    list(model.minibatches(model.state(), [shard], seed=0, local_epochs=30))
    with torch.inference_mode():
        found = model.module(torch.from_numpy(X[:, :2]), torch.from_numpy(X[:, 2:]))
    _, metrics = model.evaluate(model.state(), shard)
    assert metrics["mae"] == pytest.approx(mean_absolute_error(y, found), rel=1e-5)
    assert metrics["r2"] > 0.8
