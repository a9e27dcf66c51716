"""Models that start from what was learned before, with the preprocessing that it was learned behind."""

import numpy as np
import pytest
import torch
from torch import nn

from paceline.errors import ConfigError
from paceline.learning import checkpoints
from paceline.learning.exchange import digest_of
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.preprocessing import Standardise
from paceline.learning.starts import make_model
from paceline.learning.tasks import Task, TaskSpec
from paceline.topologies.parallel.jobs import Job
from tests.learning.small_tasks import are_equal, make_dataset

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(3.0, 2.0, (40, 2)).astype(np.float32)
CLASSES = make_dataset(x=INPUTS, y=np.arange(40, dtype=np.uint8) % 2)
OTHER_CLASSES = make_dataset(x=10 * INPUTS, y=np.arange(40, dtype=np.uint8) % 2)
NUMBERS = make_dataset(x=INPUTS, y=INPUTS.sum(1))


def job(start=None, **fields):
    return Job(deadline_seconds=1, model=ModelSpec(start=start), optimizer=OptimizerSpec(), **fields)


def learned(dataset=CLASSES, **fields):
    """The state of a model other than the one that a job begins with."""
    return {
        name: tensor if "processing" in name else tensor + 1
        for name, tensor in make_model(job(**fields), dataset).state().items()
    }


def test_a_job_without_a_start_has_new_parameters():
    assert are_equal(make_model(job(), CLASSES).state(), make_model(job(), CLASSES).state())


def test_parameters_come_with_the_preprocessing_that_they_were_trained_behind():
    state = learned()
    started = make_model(job(), OTHER_CLASSES, state)
    assert are_equal(started.state(), state)
    refitted = make_model(job(), OTHER_CLASSES).spec.normalisation
    assert started.spec.normalisation != refitted
    np.testing.assert_allclose(started.spec.normalisation.mean, INPUTS.mean(0), rtol=1e-5)
    np.testing.assert_allclose(started.spec.normalisation.std, INPUTS.std(0), rtol=1e-5)


def test_regression_also_keeps_the_units_of_its_targets():
    task = TaskSpec(kind="regression")
    state = learned(NUMBERS, task=task)
    other = make_dataset(x=INPUTS, y=100 * INPUTS.sum(1))
    started = make_model(job(task=task), other, state)
    assert are_equal(started.state(), state)
    np.testing.assert_allclose(started.spec.target_normalisation.std, INPUTS.sum(1).std(), rtol=1e-5)


class Scaled(Task):
    """A task of the user's, whose model standardises where it wants to."""

    def model(self):
        return nn.Sequential(Standardise(), nn.Linear(2, 2))

    def loss(self, model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1].long())


def test_preprocessing_of_a_task_of_the_users_is_kept_wherever_it_is():
    state = make_model(job(task=Scaled), CLASSES).state()
    started = make_model(job(task=Scaled), OTHER_CLASSES, state)
    assert are_equal(started.state(), state)
    on_a_device = LocalModel(started.spec, allowed=None).state()
    assert all(torch.allclose(on_a_device[name], state[name]) for name in ("0.scale", "0.shift"))


def test_parameters_of_the_network_alone_fit_too_behind_preprocessing_of_the_new_data():
    whole = learned()
    bare = {name.removeprefix("model."): tensor for name, tensor in whole.items() if name.startswith("model.")}
    started = make_model(job(), OTHER_CLASSES, bare)
    assert torch.equal(started.state()["model.1.weight"], whole["model.1.weight"])
    assert started.spec.normalisation == make_model(job(), OTHER_CLASSES).spec.normalisation


def test_a_job_names_a_file_or_the_folder_of_a_run(tmp_path):
    state = learned()
    file = checkpoints.save(tmp_path / "run" / checkpoints.FOLDER, 3, state)
    for start in (file, tmp_path / "run"):
        started = make_model(job(str(start)), CLASSES)
        assert are_equal(started.state(), state)
        assert started.spec.model.start is None  # a path of this machine is not sent


def without(name):
    return {other: tensor for other, tensor in learned().items() if other != name}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (without("model.1.bias"), r"it does not fit the model of this job: it lacks model\.1\.bias$"),
        ({**learned(), "head.bias": torch.zeros(2)}, r"it does not fit the model of this job: it has head\.bias$"),
        ({**learned(), "model.1.bias": torch.zeros(3)}, "the parameters do not fit the model: .*size mismatch"),
        (without("preprocessing.shift"), r"it lacks preprocessing\.shift$"),
        ({**learned(), "preprocessing.scale": torch.zeros(2)}, "its preprocessing is of no use: .*finite numbers"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(tmp_path, state, message):
    path = tmp_path / "start.safetensors"
    checkpoints.write(path, state)
    with pytest.raises(ConfigError, match=f"^{path}: {message}") as raised:
        make_model(job(str(path)), CLASSES)
    assert "\n" not in str(raised.value)


def test_what_is_not_sent_has_a_digest():
    whole, partly = (make_model(job(), CLASSES, learned(), exchange=sent) for sent in ("all", ("model.5.*",)))
    assert whole.spec.base == ""
    assert partly.spec.base == digest_of(partly.base())


def test_a_digest_is_of_names_types_shapes_and_values():
    state = {"a": torch.arange(4.0), "b": torch.zeros(0)}
    others = [
        {"a": state["a"] + 1e-6, "b": state["b"]},
        {"a": state["a"].view(2, 2), "b": state["b"]},
        {"a": state["a"].view(torch.int32), "b": state["b"]},
        {"c": state["a"], "b": state["b"]},
    ]
    assert len({digest_of(one) for one in [state, *others]}) == 5
    assert digest_of(dict(reversed(state.items()))) == digest_of(state)
