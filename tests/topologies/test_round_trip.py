"""What a run says of its model is what plain PyTorch finds with the saved one, on test data as it is stored."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_diabetes, load_wine
from torch import nn

import paceline
from paceline import GossipJob, Job, SplitJob, train
from paceline.errors import ConfigError
from paceline.fleets.virtual import VirtualFleet
from paceline.learning.datasets import DataSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.tasks import TaskSpec
from paceline.topologies.split.samples import view_of
from paceline.topologies.split.topology import TOPOLOGY
from tests.topologies.parallel.runs import device

RANDOM = np.random.default_rng(0)


def halves(x, y):
    """Three quarters to train, and the rest to test."""
    cut = 3 * len(x) // 4
    return {"x_train": x[:cut], "y_train": y[:cut], "x_test": x[cut:], "y_test": y[cut:]}


def images():
    x = RANDOM.integers(0, 256, (400, 8, 8), dtype=np.uint8)
    return halves(x, (x[:, :4].mean((1, 2)) > x[:, 4:].mean((1, 2))).astype(np.uint8))


def numbers():
    x, y = load_diabetes(return_X_y=True)
    return halves((1000 * x + 5).astype(np.float32), y.astype(np.float32))


def marks():
    x = RANDOM.normal(3.0, 2.0, (400, 6)).astype(np.float32)
    return halves(x, (x[:, :3] > 3.0).astype(np.uint8))


def tokens():
    texts = (RANDOM.integers(0, 5, (400, 1)) + np.arange(9)) % 5
    return halves(texts[:, :-1], texts[:, 1:])


def accuracy(outputs, y):
    return {"accuracy": (outputs.argmax(1) == y).double().mean().item()}


def errors(outputs, y):
    off, spread = outputs[:, 0].double() - y, y.double() - y.double().mean()
    return {"mae": off.abs().mean().item(), "r2": 1 - (off.square().sum() / spread.square().sum()).item()}


def f1(outputs, y):
    decided, meant = outputs > 0, y > 0
    both, all_marked = 2.0 * (decided & meant).sum(0), (decided.sum(0) + meant.sum(0)).double()
    return {"micro_f1": (both.sum() / all_marked.sum()).item(), "macro_f1": (both / all_marked).mean().item()}


def next_tokens(outputs, y):
    loss = nn.functional.cross_entropy(outputs.transpose(1, 2), y.long()).item()
    return {"perplexity": math.exp(loss), "accuracy": (outputs.argmax(2) == y).double().mean().item()}


KINDS = {
    "classification": (images, accuracy),
    "regression": (numbers, errors),
    "multi-label": (marks, f1),
    "language-model": (tokens, next_tokens),
}


@pytest.fixture
def trained(tmp_path):
    """Train a job of this class for data of this kind; returns the run, and its test data as stored."""

    def trained(job, kind, **rules):
        arrays = KINDS[kind][0]()
        np.savez(tmp_path / "data.npz", **arrays)
        data = DataSpec(path=str(tmp_path / "data.npz"), shard_size=50)
        job = job(
            task=TaskSpec(kind=kind), data=data, optimizer=OptimizerSpec(name="Adam", options={"lr": 0.01}), **rules
        )
        run = train(job, VirtualFleet([device("a"), device("b")]), folder=tmp_path / "run", progress=False)
        return run, torch.from_numpy(arrays["x_test"]), torch.from_numpy(arrays["y_test"])

    return trained


JOBS = {
    "parallel": (Job, {"deadline_seconds": 8.0, "rounds": 2, "min_learners": 2}),
    "gossip": (GossipJob, {"epochs": 2, "probe_seconds": 1.0, "patience_seconds": 0.5}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("topology", JOBS)
def test_a_saved_model_takes_data_as_it_is_and_is_as_good_as_the_run_says(trained, topology, kind):
    job, rules = JOBS[topology]
    run, x, y = trained(job, kind, **rules)
    model = paceline.load(run.folder)
    with torch.inference_mode():
        found = KINDS[kind][1](model(x), y)
    assert {name: run.metrics[name] for name in found} == pytest.approx(found, rel=1e-6)
    assert run.accuracy == found.get("accuracy")  # to the last digit
    with torch.inference_mode():
        assert torch.equal(run.model()(x), model(x))


def split(run_folder, **rules):
    job = SplitJob(
        epochs=2, sources=2, cut="3", patience_seconds=1.0, model=ModelSpec(name="two-nn"), data=DataSpec(), **rules
    )
    run = train(job, VirtualFleet([device("a"), device("b")]), folder=run_folder, progress=False)
    prepared = TOPOLOGY.prepare(job).prepared
    seen = [view_of(prepared.dataset, prepared.terms(number, ()), number).test for number in (1, 2)]
    return run, [torch.from_numpy(np.ascontiguousarray(view.x)) for view in seen], torch.from_numpy(seen[0].y)


def test_the_parts_of_a_model_are_saved_whole(tmp_path):
    run, seen, y = split(tmp_path / "run")
    model = paceline.load(run.folder)
    with torch.inference_mode():
        outputs = model(dict(zip("ab", seen, strict=True)))
    assert run.accuracy == accuracy(outputs, y)["accuracy"]


def test_a_model_of_images_handed_over_is_as_good_on_what_each_source_sees(tmp_path):
    run, seen, y = split(tmp_path / "run", scheme="images")
    model = paceline.load(run.folder)
    with torch.inference_mode():
        found = [accuracy(model(x), y)["accuracy"] for x in seen]
    assert run.accuracy == np.mean(found)


def test_one_file_is_enough_and_one_that_says_nothing_of_its_model_is_refused(tmp_path, trained):
    run, x, _ = trained(Job, "classification", deadline_seconds=8.0, rounds=1, min_learners=2)
    best, last = sorted((run.folder / "checkpoints").iterdir())
    assert torch.equal(paceline.load(best)(x), paceline.load(last)(x))
    best.unlink()
    moved = last.rename(tmp_path / "alone.safetensors")
    assert paceline.load(moved)(x).shape == (100, 2)
    with pytest.raises(ConfigError, match="there is neither a file nor a run that learned something"):
        paceline.load(run.folder)
    save_file({"weight": torch.zeros(2)}, tmp_path / "bare.safetensors")
    with pytest.raises(ConfigError, match="it has no digest, so it is damaged or not of a run"):
        paceline.load(tmp_path / "bare.safetensors")


def as_run(tmp_path, **rules):
    """Train a parallel job in two rounds."""
    job = Job(deadline_seconds=8.0, rounds=2, min_learners=2, optimizer={"name": "Adam", "lr": 0.01}, **rules)
    return train(job, VirtualFleet([device("a"), device("b")]), folder=tmp_path / "run", progress=False)


def test_a_model_of_a_folder_of_images_takes_what_is_in_the_files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    arrays = images()
    for part in ("train", "test"):
        for number, (x, y) in enumerate(zip(arrays[f"x_{part}"], arrays[f"y_{part}"], strict=True)):
            file = tmp_path / "photos" / part / f"class-{y}" / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            image.fromarray(x).save(file)
    run = as_run(tmp_path, model="two-nn", data={"path": str(tmp_path / "photos"), "shard_size": 50})
    files = sorted((tmp_path / "photos/test").glob("*/*.png"))
    x = torch.stack([torch.from_numpy(np.array(image.open(file))) for file in files])[:, None]
    y = torch.tensor([int(file.parent.name[-1]) for file in files])
    with torch.inference_mode():
        assert run.accuracy == accuracy(paceline.load(run.folder)(x), y)["accuracy"]


def test_a_model_of_a_table_takes_its_numbers(tmp_path):
    x, y = load_wine(return_X_y=True)
    rows = [",".join(["f"] * 13).replace("f", "f{}").format(*range(13)) + ",kind"]
    rows += [",".join(map(str, values)) + f",kind {label}" for values, label in zip(x, y, strict=True)]
    for part, chosen in {"train": rows[1::2], "test": rows[2::2]}.items():
        (tmp_path / f"{part}.csv").write_text("\n".join([rows[0], *chosen]))
    run = as_run(tmp_path, model="two-nn", data={"path": str(tmp_path), "target": "kind", "shard_size": 10})
    with torch.inference_mode():
        outputs = paceline.load(run.folder)(torch.from_numpy(x[1::2]))
    assert run.accuracy == accuracy(outputs, torch.from_numpy(y[1::2]))["accuracy"]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_amounts_may_be_of_any_type(dtype, tmp_path):
    x = RANDOM.normal(7, 3, (200, 3)).astype(np.float32)
    arrays = halves(x, np.clip(10 * x[:, 0] + x[:, 1], 0, 255).astype(dtype))
    np.savez(tmp_path / "data.npz", **arrays)
    run = as_run(tmp_path, task="regression", data={"path": str(tmp_path / "data.npz"), "shard_size": 20})
    with torch.inference_mode():
        outputs = paceline.load(run.folder)(torch.from_numpy(arrays["x_test"]))
    found = errors(outputs, torch.from_numpy(arrays["y_test"].astype(np.float32)))
    assert {name: run.metrics[name] for name in found} == pytest.approx(found, rel=1e-5)


class Bag(nn.Module):
    """Takes columns by name and returns outputs by name, as those of Hugging Face do."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 8), nn.Linear(8, 5)

    def forward(self, tokens, mask):
        bags = (self.embedding(tokens) * mask[..., None]).sum(1)
        return {"hidden": bags, "logits": self.head(bags)}


def flipped(batch):
    """A transform of batches that are dicts."""
    return {**batch, **{name: batch[name].flip(1) for name in ("tokens", "mask")}}


def test_a_model_of_columns_by_name_takes_them_by_name(tmp_path):
    arrays = tokens()
    parts = {f"tokens_{part}": arrays[f"x_{part}"] for part in ("train", "test")}
    parts |= {f"mask_{part}": np.arange(8) < np.full((len(arrays[f"x_{part}"]), 1), 5) for part in ("train", "test")}
    parts |= {f"label_{part}": arrays[f"y_{part}"][:, 0] for part in ("train", "test")}
    np.savez(tmp_path / "data.npz", **parts)
    data = {"path": str(tmp_path / "data.npz"), "shard_size": 50, "transform": f"{__name__}:flipped"}
    run = as_run(tmp_path, model=Bag, data=data)
    inputs = {name: torch.from_numpy(parts[f"{name}_test"]) for name in ("tokens", "mask")}
    with torch.inference_mode():
        outputs = paceline.load(run.folder)(**inputs)
    assert run.accuracy == accuracy(outputs["logits"], torch.from_numpy(parts["label_test"]))["accuracy"]
