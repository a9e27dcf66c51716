"""The estimate of a step's memory: there is one for every named model, and it grows as it should."""

import msgspec
import pytest
import torch

from paceline.learning.local_model import LocalModel
from paceline.learning.memory_estimate import model_bytes, step_bytes
from paceline.learning.models import MODELS, TOKEN_MODELS, ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.tables import Column
from paceline.learning.tasks import TaskSpec
from paceline.learning.training_spec import TrainingSpec


def spec_of(name, batch_size=8):
    image, label = Column("x", "float32", (3, 32, 32)), Column("y", "uint8", ())
    text, following = Column("x", "int64", (20,)), Column("y", "int64", (20,) if name == "lstm" else ())
    is_text = name in TOKEN_MODELS
    return TrainingSpec(
        task=TaskSpec(kind="language-model") if name == "lstm" else TaskSpec(),
        model=ModelSpec(name=name),
        optimizer=OptimizerSpec(),
        columns=(text, following) if is_text else (image, label),
        num_outputs=50,
        batch_size=batch_size,
    )


@pytest.mark.parametrize("name", MODELS)
def test_every_named_model_has_an_estimate(name):
    spec = spec_of(name)
    learned = LocalModel(spec)
    size = sum(tensor.nbytes for tensor in learned.parameters().values())
    assert model_bytes(spec) == pytest.approx(size, rel=0.01, abs=200)
    assert 4 * model_bytes(spec) < step_bytes(spec, 1000) < step_bytes(spec_of(name, 1000), 1000)
    assert step_bytes(spec_of(name, 1000), 8) == step_bytes(spec, 1000)  # there are no more samples


def test_the_estimate_is_near_what_layers_put_out():
    spec = spec_of("three-nn")
    outputs = 8 * 4 * (500 + 300 + 100 + 50)  # of 8 samples, as float32
    beyond = step_bytes(spec, 1000) - 4 * model_bytes(spec)
    assert 2 * outputs <= beyond <= 12 * outputs  # activations and flattened samples besides


def test_models_of_the_users_own_have_none():
    spec = msgspec.structs.replace(spec_of("two-nn"), model=ModelSpec.of(torch.nn.Identity))
    assert (model_bytes(spec), step_bytes(spec, 10)) == (0, 0)
