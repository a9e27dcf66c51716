"""Models in files: the header says how to build them, and what is wrong with a file is one line."""

import msgspec
import pytest
import torch
from safetensors.torch import save_file

from paceline.errors import ConfigError
from paceline.learning import checkpoints, saved_models
from paceline.learning.local_model import LocalModel
from paceline.learning.preprocessing import Normalisation
from paceline.learning.saved_models import SavedModel
from tests.learning.small_tasks import are_equal, make_spec

SPEC = make_spec("two-nn", normalisation=Normalisation(1.0, (5.0, -1.0), (2.0, 4.0)))


def saved(path, state=None, **fields):
    """A file with a model of two features, or with another state."""
    local = LocalModel(SPEC)
    checkpoints.write(path, local.state() if state is None else state, SavedModel(training=SPEC, **fields).header())
    return local


def test_what_is_read_is_what_was_written_and_takes_raw_samples(tmp_path):
    local = saved(tmp_path / "model.safetensors")
    described, state = saved_models.read(tmp_path / "model.safetensors")
    assert described == SavedModel(training=SPEC)
    assert are_equal(state, local.state())
    model = described.build(state)
    raw = torch.tensor([[7.0, 3.0]])
    assert not model.training
    assert torch.equal(model(raw), model.model(torch.ones(1, 2)))  # (7 − 5) / 2 and (3 + 1) / 4


def test_parameters_that_are_left_out_are_not_made_up(tmp_path):
    state = LocalModel(SPEC).state()
    del state["model.1.bias"]
    saved(tmp_path / "model.safetensors", state)
    described, state = saved_models.read(tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"the parameters do not fit the model: .*model\.1\.bias"):
        described.build(state)


def test_parameters_of_no_single_model_say_why_not(tmp_path):
    saved(tmp_path / "model.safetensors", why_not="each source has a model of its own")
    described, state = saved_models.read(tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match="^each source has a model of its own$"):
        described.build(state)


@pytest.mark.parametrize(
    "header",
    [
        None,
        {"model": "{"},
        {"model": "[]"},
        {"model": "{}"},
        {"model": msgspec.json.encode({"training": {**msgspec.to_builtins(SPEC), "batch_size": 0}}).decode()},
        {"model": msgspec.json.encode({"training": {**msgspec.to_builtins(SPEC), "columns": []}}).decode()},
    ],
)
def test_a_file_without_a_usable_header_is_refused_in_one_line(tmp_path, header):
    path = tmp_path / "model.safetensors"
    save_file(LocalModel(SPEC).state(), path, header)
    with pytest.raises(ConfigError, match=rf"^{path}: ") as raised:
        saved_models.read(path)
    assert "\n" not in str(raised.value)


def test_what_is_no_file_of_parameters_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"not at all")
    with pytest.raises(ConfigError, match="cannot be read as a checkpoint"):
        saved_models.read(tmp_path / "model.safetensors")
