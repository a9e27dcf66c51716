"""Specs of training: fitted to data, whole after the network, and nothing that could harm a device."""

import math

import msgspec
import numpy as np
import pytest
import torch

from paceline.errors import ConfigError
from paceline.learning.datasets import Dataset
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.preprocessing import Normalisation
from paceline.learning.tables import ArrayTable
from paceline.learning.tasks import TaskSpec
from paceline.learning.training_spec import TrainingSpec, fitting
from tests.learning.small_tasks import from_network, make_dataset, make_spec, pairs


def column(name="x", dtype="uint8", shape=()):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


IMAGE, LABEL = column(shape=(1, 28, 28)), column("y")
FITTING = {
    "model": {"name": "two-nn"},
    "optimizer": {},
    "columns": [IMAGE, LABEL],
    "normalisation": {"scale": 1.0, "mean": [0.0], "std": [1.0]},
    "num_outputs": 10,
    "batch_size": 32,
}


def test_a_spec_comes_through_the_network_as_it_was():
    spec = from_network(FITTING, TrainingSpec)
    assert (spec.input_shape, spec.task, spec.structure, spec.exchange) == ((1, 28, 28), TaskSpec(), "tuple", "all")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=TrainingSpec) == spec


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"columns": []}, "samples have 0 columns; allowed: 1 to 256"),
        ({"columns": [LABEL] * 257}, "samples have 257 columns; allowed: 1 to 256"),
        ({"columns": [column(dtype="complex64"), LABEL]}, "column 'x' is of type 'complex64'; "),
        ({"columns": [column(dtype="O"), LABEL]}, "column 'x' is of type 'O'; allowed: bool, int8"),
        ({"columns": [column(dtype="float23"), LABEL]}, "did you mean 'float32'"),
        ({"columns": [column(dtype="z" * 1_000_000), LABEL]}, "column 'x' is of type 'zzz"),
        ({"columns": [column(name="n" * 1_000_000), LABEL]}, "a name of 1000000 letters; allowed: 80"),
        ({"columns": [column(shape=(1, 0, 28)), LABEL]}, "column 'x' has the shape (1, 0, 28); allowed"),
        ({"columns": [column(shape=(-28, -28)), LABEL]}, "column 'x' has the shape (-28, -28); allowed"),
        ({"columns": [column(shape=[1] * 1_000_000), LABEL]}, "column 'x' has the shape (1, 1, 1,"),
        ({"columns": [column(shape=(1 << 40,)), LABEL]}, "a sample has 1099511627777 values; allowed: 16777216"),
        ({"columns": [column(shape=(1 << 20,))] * 17}, "a sample has 17825792 values; allowed: 16777216, in all its"),
        ({"columns": [IMAGE, column("y", "float32")]}, "column 'y' is float32; classes must be whole numbers"),
        ({"num_outputs": 0}, "num_outputs is 0; a built-in task has at least 1"),
        ({"columns": [column(shape=(4096, 64, 63)), LABEL], "model": {"name": "three-nn"}}, "would have 82577"),
        ({"columns": [column(shape=(1, 4096, 4096 - 1)), LABEL], "model": {"name": "fashion-net"}}, "would have 335"),
        ({"columns": [column(shape=(1 << 24 - 1,)), LABEL], "num_outputs": 1 << 20, "model": {}}, None),
        ({"columns": [column(shape=(28,)), LABEL], "model": {"name": "lenet-5"}}, "'lenet-5' does not fit inputs of"),
        ({"task": {"import": "a:B"}}, "the task makes its own model: leave out name and import in [model]"),
        ({"task": {"target": "labels"}}, "target is 'labels'; allowed: x, y"),
    ],
)
def test_specs_beyond_a_device_are_refused(fields, reason):
    if reason is None:
        assert from_network(FITTING | fields, TrainingSpec).chosen_model.name == "two-nn"
        return
    with pytest.raises(ConfigError) as caught:
        from_network(FITTING | fields, TrainingSpec)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"normalisation": {"scale": 1.0, "mean": [], "std": []}},
        {"normalisation": {"scale": 1.0, "mean": [0.0], "std": [0.0]}},
        {"normalisation": {"scale": math.nan, "mean": [0.0], "std": [1.0]}},
        {"target_normalisation": {"scale": 1.0, "mean": [0.0], "std": [-1.0]}},
        {"model": {"name": "no-such-net"}},
        {"optimizer": {"name": "no-such-optimizer"}},
        {"task": {"kind": "no-such-task"}},
        {"task": {"kind": "regression", "loss": "cross-entropy"}},
        {"transform": "no path"},
        {"exchange": "some"},
        {"structure": "list"},
        {"columns": [column(shape=(1.5,)), LABEL]},
        {"batch_size": "32"},
        {"batch_size": 1 << 63},
        {"num_outputs": (1 << 20) + 1},
        {"rounds": 0},
        {"seed": -1},
        {"proximal_mu": math.inf},
    ],
)
def test_parts_of_a_spec_are_checked_too(fields):
    with pytest.raises(msgspec.ValidationError):
        from_network(FITTING | fields, TrainingSpec)


def test_checking_a_spec_draws_nothing_at_random():
    before = torch.random.get_rng_state()
    make_spec("two-nn")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_code_by_import_path_is_not_imported_to_check_its_spec():
    own = TaskSpec(import_path="no.such.module:Task")
    fields = {"optimizer": OptimizerSpec(), "columns": pairs(), "batch_size": 4}
    spec = TrainingSpec(task=own, model=ModelSpec(), transform="no.such.module:change", **fields)
    assert spec.import_paths == ("no.such.module:Task", "no.such.module:change")
    spec = TrainingSpec(model=ModelSpec(import_path="no.such.module:Net"), num_outputs=2, **fields)
    assert spec.import_paths == ("no.such.module:Net",)
    assert make_spec("two-nn").import_paths == ()


# Fitted to data.


def fitted(dataset, **fields):
    return TrainingSpec.fitted(
        dataset, **{"model": ModelSpec(), "optimizer": OptimizerSpec(), "batch_size": 4} | fields
    )


FEATURES = np.random.default_rng(0).normal(3, 2, (12, 5)).astype(np.float32)
TOKENS = np.random.default_rng(1).integers(0, 40, (12, 6))


def test_outputs_are_counted_in_both_parts_unless_the_job_says():
    def part(labels):
        return ArrayTable({"x": FEATURES[: len(labels)], "y": np.array(labels)})

    dataset = Dataset("made up", part([0, 1, 3]), part([5, 0]))
    assert fitted(dataset).num_outputs == 6
    assert fitted(dataset, task=TaskSpec(outputs=9)).num_outputs == 9


@pytest.mark.parametrize(
    ("task", "x", "y", "num_outputs", "is_standardised", "are_targets"),
    [
        ("classification", FEATURES, np.arange(12) % 3, 3, True, False),
        ("classification", TOKENS, np.arange(12) % 3, 3, False, False),
        ("regression", FEATURES, FEATURES[:, 0], 1, True, True),
        ("regression", FEATURES, np.arange(24).reshape(12, 2), 2, True, True),
        ("multi-label", FEATURES, np.eye(12, 4, dtype=np.uint8), 4, True, False),
        ("language-model", TOKENS, TOKENS + 1, 41, False, False),
    ],
)
def test_a_spec_is_fitted_to_its_task(task, x, y, num_outputs, is_standardised, are_targets):
    spec = fitted(make_dataset(x=x, y=y), task=TaskSpec(kind=task))
    assert spec.num_outputs == num_outputs
    assert spec.normalisation == (Normalisation.of(ArrayTable({"x": x})) if is_standardised else None)
    assert (spec.target_normalisation is not None) == are_targets
    assert [column.dtype for column in spec.columns] == [x.dtype.name, y.dtype.name]


def test_several_inputs_and_those_by_name_are_left_as_they_are():
    for structure in ("tuple", "dict"):
        data = make_dataset(structure, image=FEATURES, text=TOKENS, y=np.arange(12) % 3)
        assert fitted(data).normalisation is None
    assert fitted(make_dataset("dict", x=FEATURES, y=np.arange(12) % 3)).structure == "dict"


def test_the_target_may_be_any_column_of_a_dict():
    data = make_dataset("dict", label=np.arange(12) % 3, x=FEATURES, weight=FEATURES[:, 0])
    spec = fitted(data, task=TaskSpec(target="label"), model=ModelSpec(import_path="own:Net"))
    assert spec.num_outputs == 3
    with pytest.raises(ConfigError, match="values from 7 to 7 in column 'label'"):
        spec.check(type(data.train.take(slice(2)))(np.full(2, 7), FEATURES[:2], FEATURES[:2, 0]))
    with pytest.raises(ConfigError, match="target is 'lable'; did you mean 'label'"):
        fitted(data, task=TaskSpec(target="lable"))


@pytest.mark.parametrize(
    ("task", "columns", "reason"),
    [
        ("classification", {"x": FEATURES}, "classification takes samples with a target; these have one column, 'x'"),
        (
            "classification",
            {"x": FEATURES, "y": FEATURES[:, 0]},
            "'y' is float32; classes must be whole numbers from 0",
        ),
        ("classification", {"x": FEATURES, "y": TOKENS}, r"labels have shape \(6,\); classification takes one class"),
        ("classification", {"x": FEATURES, "y": np.arange(12) - 2}, "column 'y' has the value -2; allowed: 0 to"),
        ("classification", {"x": FEATURES, "y": np.arange(12) << 20}, "column 'y' has the value 11534336; allowed"),
        ("regression", {"x": FEATURES, "y": FEATURES[:, None]}, r"targets have shape \(1, 5\); regression takes one"),
        ("multi-label", {"x": FEATURES, "y": np.arange(12)}, r"targets have shape \(\); multi-label takes a row"),
        ("language-model", {"x": FEATURES}, "column 'x' is float32; classes must be whole numbers"),
        (
            "language-model",
            {"x": TOKENS[:, None]},
            r"samples have shape \(1, 6\); a language model takes rows of tokens",
        ),
        ("language-model", {"x": TOKENS - 3}, "column 'x' has the value -3"),
        ("classification", {"x": FEATURES * np.nan, "y": np.arange(12)}, "'x' has values that are not finite"),
        ("regression", {"x": FEATURES, "y": FEATURES[:, 0] * np.inf}, "'y' has values that are not finite"),
    ],
)
def test_data_that_does_not_fit_the_task_is_refused(task, columns, reason):
    with pytest.raises(ConfigError, match=reason):
        fitted(make_dataset(**columns), task=TaskSpec(kind=task))


# A device's own data.


def test_own_data_becomes_that_of_the_job():
    spec = fitted(make_dataset(x=FEATURES, y=(np.arange(12) % 3).astype(np.uint8)))
    own = ArrayTable({"x": FEATURES, "y": np.arange(12, dtype=np.uint8) % 3})
    assert fitting(own, spec) is own
    other = fitting(ArrayTable({"inputs": FEATURES.astype(np.float64), "class": np.arange(12) % 3}), spec)
    assert other.columns == spec.columns
    spec.check(other.take(slice(None)))
    assert np.array_equal(other.labels(), np.arange(12) % 3)


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"x": FEATURES[:, :4], "y": np.arange(12) % 3}, r"the data has x: float32 of shape \(4,\), y: int64"),
        ({"x": TOKENS[:, :5], "y": np.arange(12) % 3}, "the data has x: int64 .*; the job wants x: float32"),
        ({"x": FEATURES, "y": FEATURES[:, 0]}, "the data has .*y: float32"),
        ({"y": np.arange(12) % 3}, "the data has y: int64"),
        ({"x": FEATURES, "y": np.arange(12)}, "values up to 11 in column 'y'; the job wants them below 3"),
        ({"x": FEATURES, "y": np.arange(12) - 1}, "column 'y' has the value -1; allowed: 0 to"),
    ],
)
def test_own_data_of_another_kind_is_refused(own, reason):
    spec = fitted(make_dataset(x=FEATURES, y=(np.arange(12) % 3).astype(np.uint8)))
    with pytest.raises(ConfigError, match=reason):
        fitting(ArrayTable(own), spec)


def test_own_numbers_that_do_not_fit_the_type_are_refused():
    spec = fitted(make_dataset(x=TOKENS.astype(np.uint8), y=FEATURES[:, 0]), task=TaskSpec(kind="regression"))
    with pytest.raises(ConfigError, match="values in 'x' that do not fit uint8, the job's type"):
        fitting(ArrayTable({"x": TOKENS + 300, "y": FEATURES[:, 0]}), spec)


def test_own_tokens_are_within_the_vocabulary_of_the_job():
    spec = fitted(make_dataset(tokens=TOKENS), task=TaskSpec(kind="language-model"))
    with pytest.raises(ConfigError, match="values up to 140 in column 'tokens'; the job wants them below"):
        fitting(ArrayTable({"text": np.full((3, 6), 140)}), spec)


def test_own_dicts_have_the_same_names():
    spec = fitted(make_dataset("dict", input_ids=TOKENS, labels=TOKENS), task=TaskSpec(kind="language-model"))
    with pytest.raises(ConfigError, match="the data has labels: .*; the job wants input_ids:"):
        fitting(ArrayTable({"labels": TOKENS, "input_ids": TOKENS}, "dict"), spec)


@pytest.mark.parametrize(
    ("kind", "y", "outputs", "allowed"),
    [
        ("classification", np.arange(12) % 3, 2, "at least 3"),
        ("regression", FEATURES[:, 0], 2, "1"),
        ("multi-label", np.ones((12, 2), bool), 3, "2"),
    ],
)
def test_outputs_that_the_data_does_not_have_are_refused(kind, y, outputs, allowed):
    data, task = make_dataset(x=FEATURES, y=y), TaskSpec(kind=kind, outputs=outputs)
    with pytest.raises(ConfigError, match=f"outputs of \\[task\\] is {outputs}; the data asks for {allowed}: leave it"):
        TrainingSpec.fitted(data, task=task, model=ModelSpec(), optimizer=OptimizerSpec(), batch_size=4)


def test_amounts_of_a_device_may_all_be_whole_by_chance():
    data, task = make_dataset(x=FEATURES, y=FEATURES[:, 0]), TaskSpec(kind="regression")
    spec = TrainingSpec.fitted(data, task=task, model=ModelSpec(), optimizer=OptimizerSpec(), batch_size=4)
    own = fitting(ArrayTable({"x": FEATURES, "y": np.arange(12, dtype=np.uint8)}), spec)
    assert (own.columns[1].dtype, own.labels().tolist()) == ("float32", list(range(12)))
    with pytest.raises(ConfigError, match="x: uint8"):  # its unit may be another
        fitting(ArrayTable({"x": FEATURES.astype(np.uint8), "y": FEATURES[:, 0]}), spec)
