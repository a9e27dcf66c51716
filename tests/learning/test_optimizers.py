"""Optimizers: what torch offers, and nothing that an orchestrator could harm a device with; and their schedules."""

import math

import msgspec
import pytest
import torch

from paceline.learning.optimizers import OPTIMIZERS, OptimizerSpec
from tests.learning.small_tasks import are_equal, from_network, make_model, make_shards


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
        ({"options": {"lr": (1 << 64) - 1}}, "SGD: lr is 18446744073709551615; allowed: finite numbers, up to 1e"),
        ({"options": {"nesterov": True}}, "SGD does not work with nesterov = True: Nesterov momentum requires"),
        ({"name": "Adam", "options": {"betas": []}}, "Adam does not work with betas = []: tuple index out of range"),
        ({"name": "Adam", "options": {"betas": [0.9, 1.5]}}, "Invalid beta parameter at index 1: 1.5"),
        ({"name": "Adam", "options": {"betas": [0.9, math.nan]}}, "Adam: betas is [0.9, nan]; allowed: finite"),
        ({"name": "Adam", "options": {"fused": True, "foreach": True}}, "cannot be `True` together"),
        ({"schedule": "cosin"}, "schedule"),
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


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("constant", [1, 1, 1, 1]),
        ("linear", [1, 0.75, 0.5, 0.25]),
        ("cosine", [1, 0.5 + 0.5 * math.sqrt(0.5), 0.5, 0.5 - 0.5 * math.sqrt(0.5)]),
    ],
)
def test_learning_rates_fall_from_the_first_round_to_the_last(schedule, factors):
    spec = from_network({"schedule": schedule}, OptimizerSpec)
    assert [spec.factor(round, 4) for round in (1, 2, 3, 4)] == pytest.approx(factors)
    assert spec.factor(1, 1) == 1


def test_rounds_that_a_job_did_not_plan_do_not_climb():
    """A run may be resumed for more rounds than its schedule had."""
    assert [OptimizerSpec(schedule=schedule).factor(9, 4) for schedule in ("linear", "cosine")] == [0, 0]


def test_a_round_trains_at_the_learning_rate_of_its_schedule():
    shards, start = make_shards(4), make_model().state()

    def trained(round, **optimizer):
        model = make_model(rounds=4, optimizer=OptimizerSpec(**optimizer))
        list(model.minibatches(start, shards, seed=0, round=round))
        return model.state()

    assert are_equal(trained(3, schedule="linear"), trained(1, options={"lr": 0.05}))
    assert are_equal(trained(1, schedule="linear"), trained(3))


def test_an_optimizer_that_is_kept_falls_from_where_it_began():
    model, shards = make_model(rounds=4, optimizer=OptimizerSpec(schedule="linear")), make_shards(4)
    optimizer, rates = model.new_optimizer(), []
    for round in (1, 2, 3, 4):
        list(model.minibatches(model.state(), shards, seed=0, round=round, optimizer=optimizer))
        rates += [group["lr"] for group in optimizer.param_groups]
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025])
