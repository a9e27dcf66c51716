"""Exported models give what saved ones give, for samples as the data has them, without PyTorch."""

import json

import numpy as np
import onnxruntime
import pytest
import torch
import tqdm
from torch import nn

from paceline import Job, Task, VirtualDevice, VirtualFleet, export, load, train
from paceline.cli.main import main
from paceline.errors import ConfigError, PacelineError
from paceline.learning import onnx_file
from paceline.learning.junction import JunctionSpec
from paceline.learning.saved_models import SavedModel
from tests.learning.small_tasks import make_spec

tqdm.tqdm.monitor_interval = 0  # of the exporter: it would leave a thread behind
FLEET = VirtualFleet([VirtualDevice(name="one", samples_per_second=2000)])


class Ratings(Task):
    """Inputs by name, and outputs as Hugging Face has them."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(9, 4), nn.Linear(5, 2)

        def forward(self, tokens, age):
            words = self.words(tokens).mean(1)
            return {"logits": self.head(torch.cat([words, age[:, None]], 1))}

    def model(self):
        return self.Network()

    def loss(self, model, batch):
        outputs = model(tokens=batch["tokens"], age=batch["age"])
        return nn.functional.cross_entropy(outputs["logits"], batch["label"])


def outputs_of(path, **inputs):
    return onnxruntime.InferenceSession(path).run(None, inputs)[0]


def test_a_classifier_takes_raw_images(tmp_path, capsys):
    train(Job(rounds=1, deadline_seconds=3, data="digits"), FLEET, folder=tmp_path / "run", progress=False)
    with pytest.raises(SystemExit) as ended:
        main(["export", str(tmp_path / "run"), str(tmp_path / "model.onnx"), "--json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(tmp_path / "model.onnx"), "inputs": ["x"]}
    images = np.random.default_rng(0).integers(0, 256, (5, 1, 8, 8), np.uint8)
    with torch.inference_mode():
        expected = load(tmp_path / "run")(torch.from_numpy(images))
    np.testing.assert_allclose(outputs_of(tmp_path / "model.onnx", x=images), expected, atol=1e-5)


def test_inputs_of_a_task_of_the_users_have_names(tmp_path):
    draw = np.random.default_rng(0)
    columns = {
        "tokens": draw.integers(0, 9, (40, 6)),
        "age": draw.random(40, np.float32),
        "label": draw.integers(0, 2, 40),
    }
    np.savez(
        tmp_path / "data.npz",
        **{f"{name}_{part}": column for name, column in columns.items() for part in ("train", "test")},
    )
    job = Job(rounds=1, deadline_seconds=3, data={"path": str(tmp_path / "data.npz"), "shard_size": 10}, task=Ratings)
    run = train(job, FLEET, folder=tmp_path / "run", progress=False)
    assert export(run.folder, tmp_path / "model.onnx") == ["tokens", "age"]
    inputs = {name: columns[name][:7] for name in ("tokens", "age")}
    with torch.inference_mode():
        expected = run.model()(**{name: torch.from_numpy(column) for name, column in inputs.items()})["logits"]
    np.testing.assert_allclose(outputs_of(tmp_path / "model.onnx", **inputs), expected, atol=1e-5)


def test_what_is_no_run_is_refused_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match="neither a file nor a run that learned something"):
        export(tmp_path, tmp_path / "model.onnx")


def test_a_model_of_several_sources_is_refused_in_one_line(tmp_path):
    saved = SavedModel(training=make_spec(), cut="3", junction=JunctionSpec())
    with pytest.raises(
        ConfigError, match="^a model of several sources takes a view from each of them, and is not expo"
    ):
        onnx_file.write(tmp_path / "model.onnx", saved, nn.Linear(2, 2))
    assert not list(tmp_path.iterdir())


def test_what_torch_cannot_trace_is_refused_in_one_line(tmp_path):
    class Wavering(nn.Module):
        def forward(self, x):
            return x if x.sum().item() > 0 else -x

    with pytest.raises(PacelineError, match="^this model cannot be exported: ") as raised:
        onnx_file.write(tmp_path / "model.onnx", SavedModel(training=make_spec()), Wavering())
    assert "\n" not in str(raised.value)
