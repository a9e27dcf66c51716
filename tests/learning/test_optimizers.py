"""Tasks and optimizers: what torch offers, and nothing that an orchestrator could harm a device with."""

import math

import msgspec
import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OPTIMIZERS, OptimizerSpec
from tests.learning.small_tasks import are_equal, make_model, make_shards, make_spec


def from_network(fields, kind):
    """What a device makes of a message."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=kind)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains_a_step_with_its_defaults(name):
    model = make_model("two-nn", optimizer=OptimizerSpec(name=name, options={}))
    before = model.state()
    assert next(model.minibatches(before, make_shards(4), seed=0)) == 4
    after = model.state()
    assert not are_equal(before, after)
    assert all(tensor.isfinite().all() for tensor in after.values())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 1}),
        ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
        ("Adam", {"lr": 1e-3, "betas": [0.8, 0.99], "amsgrad": True}),
        ("Rprop", {"etas": [0.5, 1.2], "step_sizes": [1e-6, 50]}),
    ],
)
def test_options_reach_the_optimizer(name, options):
    spec = from_network({"name": name, "options": options}, OptimizerSpec)
    made = spec.make([torch.nn.Parameter(torch.zeros(2))])
    assert type(made) is getattr(torch.optim, name)
    for option, value in options.items():
        assert made.defaults[option] == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "Sgd"}, "optimizer 'Sgd' is unknown; did you mean 'SGD'? Allowed: ASGD, Adadelta,"),
        ({"name": "LBFGS"}, "optimizer 'LBFGS' is unknown; allowed: ASGD, Adadelta,"),
        ({"name": "__import__('os')"}, "is unknown; allowed: ASGD"),
        ({"options": {"learning_rate": 1}}, "SGD has no option 'learning_rate'; allowed: lr, momentum,"),
        ({"options": {"momentun": 1}}, "SGD has no option 'momentun'; did you mean 'momentum'? Allowed: lr,"),
        ({"options": {"params": [1.0]}}, "SGD has no option 'params'"),
        ({"options": {"lr": -1}}, "SGD does not work with lr = -1: Invalid learning rate: -1"),
        ({"options": {"lr": "0.1"}}, "SGD does not work with lr = '0.1': '<' not supported"),
        ({"options": {"lr": math.nan}}, "SGD: lr is nan; allowed: finite numbers"),
        ({"options": {"lr": 1e300}}, "SGD: lr is 1e+300; allowed: finite numbers"),
        ({"options": {"lr": (1 << 64) - 1}}, "SGD does not work with lr = 18446744073709551615"),
        ({"options": {"nesterov": True}}, "SGD does not work with nesterov = True: Nesterov momentum requires"),
        ({"name": "Adam", "options": {"betas": []}}, "Adam does not work with betas = []: tuple index out of range"),
        ({"name": "Adam", "options": {"betas": [0.9, 1.5]}}, "Invalid beta parameter at index 1: 1.5"),
        ({"name": "Adam", "options": {"betas": [0.9, math.nan]}}, "Adam: betas is [0.9, nan]; allowed: finite"),
        ({"name": "Adam", "options": {"fused": True, "foreach": True}}, "cannot be `True` together"),
    ],
)
def test_bad_optimizers_are_refused_in_one_line(fields, reason):
    with pytest.raises(msgspec.ValidationError) as caught:
        from_network(fields, OptimizerSpec)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the reason is checked below)
        OptimizerSpec(**fields)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x" * 1_000_000},
        {"name": "a\nb" * 100_000},
        {"options": {"y" * 1_000_000: 1}},
        {"options": {"lr": "z" * 1_000_000}},
        {"name": "Adam", "options": {"betas": [0.9] * 1_000_000}},
        {"options": {"lr": "__import__('os').abort()"}},
    ],
)
def test_hostile_optimizers_are_refused_in_few_words(fields):
    with pytest.raises(msgspec.ValidationError) as caught:
        from_network(fields, OptimizerSpec)
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)


FITTING = {
    "model": {"name": "two-nn"},
    "optimizer": {},
    "normalisation": {"scale": 1.0, "mean": [0.0], "std": [1.0]},
    "input_shape": [1, 28, 28],
    "num_classes": 10,
    "batch_size": 32,
}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"input_shape": []}, "input_shape is (); allowed: 1 to 8 sizes of 1 or more"),
        ({"input_shape": [1, 0, 28]}, "input_shape is (1, 0, 28); allowed"),
        ({"input_shape": [-28, -28]}, "input_shape is (-28, -28); allowed"),
        ({"input_shape": [1 << 40]}, "input_shape is (1099511627776,); allowed"),
        ({"input_shape": [1 << 20, 1 << 20, 1 << 20]}, "allowed: 1 to 8 sizes of 1 or more, 16777216 values in all"),
        ({"input_shape": [1] * 1_000_000}, "input_shape is (1, 1, 1,"),
        (
            {"input_shape": [3, 28, 28], "normalisation": {"scale": 1.0, "mean": [0.0] * 2, "std": [1.0] * 2}},
            "2 channels",
        ),
        ({"normalisation": {"scale": 1.0, "mean": [0.0] * 3, "std": [1.0] * 3}}, "is for 3 channels; samples of shape"),
        ({"input_shape": [4096, 64, 64], "model": {"name": "three-nn"}}, "'three-nn' would have 8388789910 parameters"),
        ({"input_shape": [1, 4096, 4096], "model": {"name": "fashion-net"}}, "would have 335"),
        ({"input_shape": [28], "model": {"name": "lenet-5"}}, "'lenet-5' does not fit inputs of shape (28,)"),
    ],
)
def test_tasks_beyond_a_device_are_refused(fields, reason):
    with pytest.raises(ConfigError) as caught:
        from_network(FITTING | fields, Task)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"normalisation": {"scale": 1.0, "mean": [], "std": []}},
        {"normalisation": {"scale": 1.0, "mean": [0.0], "std": [0.0]}},
        {"normalisation": {"scale": math.nan, "mean": [0.0], "std": [1.0]}},
        {"model": {"name": "no-such-net"}},
        {"optimizer": {"name": "no-such-optimizer"}},
        {"input_shape": [1.5]},
        {"batch_size": "32"},
        {"batch_size": 1 << 63},
        {"num_classes": (1 << 16) + 1},
        {"seed": -1},
        {"proximal_mu": math.inf},
    ],
)
def test_parts_of_a_task_are_checked_too(fields):
    with pytest.raises(msgspec.ValidationError):
        from_network(FITTING | fields, Task)


def test_checking_a_task_draws_nothing_at_random():
    before = torch.random.get_rng_state()
    make_spec("two-nn")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_by_import_path_is_not_imported_to_check_its_task():
    spec = ModelSpec(import_path="no.such.module:Net")
    assert msgspec.structs.replace(make_spec("two-nn"), model=spec).model == spec
