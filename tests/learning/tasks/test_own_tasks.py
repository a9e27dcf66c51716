"""Tasks of the user's own: loss, metrics, optimizer and schedule of theirs, and every mistake in one line."""

import sys

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning.local_model import LocalModel
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.preprocessing import Normalisation
from paceline.learning.shards import Shard
from paceline.learning.tasks import TaskSpec
from paceline.learning.training_spec import TrainingSpec
from tests.learning.small_tasks import are_equal, fit_model, from_network, make_dataset
from tests.learning.tasks import own_tasks

X = np.random.default_rng(0).normal(7, 3, (12, 2)).astype(np.float32)
SHARD = Shard(X, (X - 7)[:, :1].copy())
DATA = make_dataset(x=SHARD.x, y=SHARD.y)
SGD = OptimizerSpec(options={"lr": 0.01})


def own(name="Direction", **options):
    return TaskSpec(import_path=f"tests.learning.tasks.own_tasks:{name}", options=options)


def fit(name="Direction", allowed=None, **fields):
    return fit_model(DATA, allowed, **{"task": own(name), "optimizer": SGD, "batch_size": 12, **fields})


def test_a_class_stands_for_its_import_path():
    assert TaskSpec.of(own_tasks.Plain) == own("Plain")
    assert from_network({"import": "tests.learning.tasks.own_tasks:Plain"}, TaskSpec) == own("Plain")


def test_loss_optimizer_and_schedule_are_those_of_the_task():
    model = fit(rounds=9)
    weight, bias = (model.state()[name].double().requires_grad_() for name in ("1.weight", "1.bias"))
    how = Normalisation.of(DATA.train)
    x = (torch.from_numpy(X).double() - torch.tensor(how.mean)) / torch.tensor(how.std)
    outputs = x @ weight.T + bias
    loss = (1 - nn.functional.cosine_similarity(outputs, torch.from_numpy(SHARD.y))).mean()
    slopes = torch.autograd.grad(loss, (weight, bias))
    list(model.minibatches(model.state(), [SHARD], seed=0, round=4))
    for name, start, slope in zip(("1.weight", "1.bias"), (weight, bias), slopes, strict=True):
        torch.testing.assert_close(model.state()[name].double(), start - 0.5 / 4 * slope, rtol=1e-4, atol=1e-6)


def test_its_schedule_and_that_of_the_job_are_multiplied():
    model = fit(rounds=4, optimizer=OptimizerSpec(schedule="linear"))
    optimizer = model.new_optimizer()
    list(model.minibatches(model.state(), [SHARD], seed=0, round=3, optimizer=optimizer))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * (1 / 3) * 0.5)


def test_without_an_optimizer_that_of_the_job_is_used():
    adam = OptimizerSpec(name="Adam", options={"lr": 0.2})
    made = fit("Plain", optimizer=adam).new_optimizer()
    assert isinstance(made, torch.optim.Adam)
    assert made.param_groups[0]["lr"] == 0.2


def test_metrics_are_summed_up_over_batches_and_summarised_by_the_task():
    many = np.tile(X, (300, 1))  # more than a chunk
    shard = Shard(many, (many - 7)[:, :1].copy())
    model = fit()
    _, metrics = model.evaluate(model.state(), shard)
    with torch.inference_mode():
        outputs = model.module(torch.from_numpy(X)).numpy()
    assert metrics["signs"] == ((outputs > 0) == (SHARD.y > 0)).mean()
    assert metrics["largest"] == pytest.approx(np.abs(outputs).max())
    assert metrics["width"] == 1
    assert model.metric_names == ("signs", "largest", "width")
    assert fit("Plain").metric_names == ()


def test_options_are_arguments_of_the_class_whatever_their_names():
    path = own().import_path
    model = fit(task=TaskSpec(import_path=path, options={"width": 1, "name": "north"}))
    assert (model.task.width, model.task.name) == (1, "north")
    with pytest.raises(ConfigError, match=r"own_tasks:Direction': calling Direction\(\) failed: TypeError: .*'what'"):
        fit(task=own(what=3, function=2))


def test_losses_of_samples_are_those_of_batches_of_one():
    model = fit("Plain")
    (losses,) = model.losses(model.state(), SHARD)
    alone = [model.evaluate(model.state(), SHARD.take(slice(row, row + 1))).loss for row in range(12)]
    assert losses.tolist() == pytest.approx(alone, rel=1e-5)


def test_its_standardise_is_fitted_to_the_training_data():
    model, how = fit(), Normalisation.of(DATA.train)
    assert model.state()["0.scale"].tolist() == pytest.approx([1 / std for std in how.std])
    assert model.layout.names == {"1.weight", "1.bias"}


def test_a_transform_changes_what_is_trained_and_not_what_is_tested():
    plain, changed = fit("Plain"), fit("Plain", transform="tests.learning.tasks.own_tasks:double")
    start = plain.state()
    assert changed.evaluate(start, SHARD) == plain.evaluate(start, SHARD)
    list(changed.minibatches(start, [SHARD], seed=0))
    list(plain.minibatches(start, [Shard(2 * SHARD.x, SHARD.y)], seed=0))
    assert are_equal(changed.state(), plain.state())
    assert not are_equal(changed.state(), start)
    assert list(changed.minibatches(start, [SHARD], seed=0)) == [12]


def test_a_transform_that_makes_no_batch_is_told():
    with pytest.raises(
        ConfigError, match="own_tasks:nothing': training on what it made of two samples of zeros failed"
    ):
        fit("Plain", transform="tests.learning.tasks.own_tasks:nothing")


def test_a_transform_comes_before_standardising():
    """The network of a named model sees what was changed as it is stored."""
    data = make_dataset(x=SHARD.x, y=(SHARD.y[:, 0] > 0).astype(np.uint8))
    shard = data.train.take(slice(None))
    model = fit_model(data, None, transform="tests.learning.tasks.own_tasks:double", batch_size=12)
    plain = fit_model(data, None, batch_size=12)
    list(model.minibatches(plain.state(), [shard], seed=0))
    list(plain.minibatches(plain.state(), [Shard(2 * shard.x, shard.y)], seed=0))
    assert are_equal(model.state(), plain.state())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NoTask", "is not a class derived from paceline.Task"),
        ("function", "is not a class derived from paceline.Task"),
        ("NUMBER", "is not a class derived from paceline.Task"),
        ("Missing", "tests.learning.tasks.own_tasks has no 'Missing'"),
        ("Abstract", r"calling Abstract\(\) failed: TypeError: .*abstract"),
        ("Choosy", r"calling Choosy\(\) failed: TypeError: .*'width'"),
        ("NoModule", r"model\(\) made no torch.nn.Module but a list"),
        ("Frozen", "has no parameters that can be trained: give it some, unfrozen"),
        ("LossPerSample", r"loss\(\) returned a value of shape \(2,\); it must be a scalar"),
        ("LossOfNumber", r"loss\(\) returned a value of type float; it must be a scalar"),
        ("Failing", r"loss\(\) on two samples of zeros failed: KeyError: 'no\\nsuch column'"),
        ("BadMetrics", r"metrics\(\) on two samples of zeros failed: TypeError"),
    ],
)
def test_a_task_that_cannot_be_used_is_told_in_one_line(name, reason):
    path = own(name).import_path
    with pytest.raises(ConfigError, match=f"^(task|model) '{path}'.*{reason}") as caught:
        fit(name)
    assert "\n" not in str(caught.value)


def test_an_optimizer_that_is_none_is_told():
    with pytest.raises(ConfigError, match=r"the task: optimizer\(\) made no torch.optim.Optimizer but a str"):
        fit("NoOptimizer").new_optimizer()


@pytest.mark.parametrize("allowed", [(), ["tests.other"], ["here.sentiment:Other"]])
@pytest.mark.parametrize("field", ["task", "transform"])
def test_what_is_not_allowed_is_not_imported(tmp_path, monkeypatch, allowed, field):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "sentiment.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = "here.sentiment:Sentiment"
    fields = {"task": TaskSpec(import_path=path)} if field == "task" else {"task": TaskSpec(kind="regression")}
    spec = TrainingSpec.fitted(
        DATA, **fields, model=fit("Plain").spec.model, optimizer=SGD, batch_size=4, transform=path * (field != "task")
    )
    assert spec.import_paths == (path,)
    with pytest.raises(
        ConfigError, match=f"^{field} '{path}' is not allowed on this device; to allow it, pass --allow"
    ):
        LocalModel(from_network(msgspec.to_builtins(spec), TrainingSpec), allowed)
    assert not (tmp_path / "ran").exists()
    assert not any(name.startswith("here") for name in sys.modules)


@pytest.mark.parametrize("allowed", [["tests.learning"], ["tests.learning.tasks.own_tasks:Plain"]])
def test_what_is_allowed_is_imported(allowed):
    assert isinstance(fit("Plain", allowed).task, own_tasks.Plain)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "clasification"}, "did you mean 'classification'"),
        ({"kind": "os:system"}, "kind is 'os:system'; the path of a task of your own is its import"),
        ({"import": "nets"}, "must read package.module:Name or path/to/file.py:Name"),
        ({"kind": "regression", "import": "a:B"}, "a task has either a kind or an import, not 'regression' and 'a:B'"),
        ({"import": "a:B", "loss": "mse"}, "loss, outputs and target are for built-in tasks"),
        ({"import": "a:B", "outputs": 3}, "loss, outputs and target are for built-in tasks"),
        ({"options": {"width": 3}}, "options are for a task of your own"),
        ({"kind": "regression", "loss": "msa"}, "did you mean 'mse'"),
        ({"outputs": 0}, "outputs"),
        ({"lose": "mse"}, "unknown field `lose`"),
    ],
)
def test_bad_task_tables_are_refused(fields, reason):
    with pytest.raises(msgspec.ValidationError, match=reason):
        from_network(fields, TaskSpec)
