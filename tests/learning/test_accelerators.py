"""Accelerators: what is moved where, in which precision training is, and that no clock is read before work is done.

There is no GPU: `python_backend` pretends to be one, in a process of its own (`pretend_checks`).
"""

import asyncio
import json
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.devices.machines import LiveMachine
from paceline.errors import ConfigError
from paceline.learning.accelerators import CPU, Accelerator, TrainingSteps, find_accelerator, on_cpu
from paceline.learning.engines import ThreadEngine
from paceline.learning.local_model import LocalModel
from paceline.learning.trainers import ThreadTrainer
from tests.learning.small_tasks import are_equal, digits_spec, make_model, make_shards, make_spec
from tests.learning.test_trainers import UNIT_SECONDS, HandClock, train

META = Accelerator(device=torch.device("meta"))
Pair = namedtuple("Pair", "one other")


@pytest.fixture(scope="module")
def pretend():
    """What `pretend_checks` found."""
    command = [sys.executable, "-W", "error", "-m", "tests.learning.pretend_checks"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_models_train_on_a_backend_as_on_the_cpu(pretend):
    assert pretend["learns_alike"]


def test_jobs_of_every_topology_come_out_as_on_the_cpu(pretend):
    assert set(pretend["runs_alike"].values()) == {True}, pretend["runs_alike"]


def test_a_tensor_that_is_left_on_the_cpu_is_an_error(pretend):
    assert "LeftBehind': calling it with samples of shape (2,) failed" in pretend["left_behind"]
    assert "found one on cpu" in pretend["left_behind"]


def test_a_trainer_counts_the_time_of_queued_work_and_halts_by_it(pretend):
    found = pretend["timings"]
    assert found["seconds"] > 100  # operations; without waiting, none would be done
    assert found["halted"] == [8, True]  # two of five minibatches, in the time of two and a half
    assert found["is_idle"]


def test_benchmarks_and_engines_wait_and_try_no_threads(pretend):
    assert min(pretend["benchmarks"]["waits"]) > 0
    assert pretend["benchmarks"]["threads"] == [None]


def test_auto_finds_what_is_there_and_its_float32_keeps_all_digits(pretend):
    name, message = pretend["names"]
    assert name == "pretend"
    assert message == "device cuda is not available on this machine; there are: cpu, pretend:0"
    assert pretend["all_digits"] == [False, False]


def test_a_backend_without_a_precision_says_so(pretend):
    assert pretend["short_precision"].startswith("pretend does not train in bfloat16: ")


@pytest.mark.parametrize("name", ["cuda:77", "banana", "meta", ""])
def test_what_is_not_there_is_named_in_one_line(name):
    with pytest.raises(ConfigError, match=rf"^device {name} is not available on this machine; there are: cpu"):
        find_accelerator(name)


def test_batches_of_any_form_are_moved():
    x, y = torch.ones(2), torch.zeros(3)
    batch = {"both": (x, [y]), "named": Pair(x, y), "text": "as it is"}
    moved = META.move(batch)
    assert (moved["both"][0].device, moved["both"][1][0].device) == (META.device, META.device)
    assert type(moved["named"]) is Pair
    assert moved["named"].other.device == META.device
    assert moved["text"] == "as it is"
    assert CPU.move(batch) is batch
    assert on_cpu(batch)["both"][0] is x


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter:UserWarning")
@pytest.mark.parametrize("model", ["Line", "Normalised", "two-nn"])
def test_all_of_a_training_is_where_the_model_is(model):
    """Tensors of the device `meta` have no values, and cannot be mixed with any others."""
    cpu, placed = make_model(model), LocalModel(make_spec(model, proximal_mu=0.1), None, accelerator=META)
    assert sum(placed.minibatches(cpu.state(), make_shards(10), seed=1)) == 10


def test_a_model_that_leaves_a_tensor_behind_is_refused():
    with pytest.raises(ConfigError, match="LeftBehind': calling it with samples of shape"):
        LocalModel(make_spec("LeftBehind"), None, accelerator=META)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_shorter_types_learn_and_what_travels_is_float32(precision):
    spec, data = digits_spec(precision=precision)
    model, shard = LocalModel(spec), data.train.take(slice(None))
    before = model.evaluate(model.state(), data.test)
    ends = {}
    for one in (model, LocalModel(digits_spec()[0])):
        for _ in one.minibatches(one.state(), [shard], seed=1, local_epochs=5):
            pass
        ends[one.spec.precision] = one.parameters()
    assert {vector.dtype for vector in ends[precision].values()} == {torch.float32}
    assert not are_equal(ends[precision], ends["float32"])
    after = model.evaluate(model.state(), data.test)
    assert after.loss < before.loss / 2
    assert after.metrics["accuracy"] > 0.75


def test_evaluation_is_in_float32_whatever_the_precision_of_training():
    spec, data = digits_spec(precision="bfloat16")
    one, other = LocalModel(spec), LocalModel(digits_spec()[0])
    shard = data.test.take(slice(None))
    assert one.evaluate(other.state(), shard) == other.evaluate(other.state(), shard)
    assert np.array_equal(*(np.concatenate(list(model.losses(other.state(), shard))) for model in (one, other)))


def test_gradients_that_overflow_float16_are_left_out():
    parameter = torch.nn.Parameter(torch.ones(1))
    steps = TrainingSteps(CPU, "float16", torch.optim.SGD([parameter], lr=1.0))
    steps.backward((parameter * 1e38).sum())  # infinite, once scaled
    steps.step()
    assert parameter.item() == 1.0
    steps.backward((parameter * 0.25).sum())
    assert parameter.grad.item() == 0.25  # as if it had not been scaled
    steps.step()
    assert parameter.item() == 0.75


@dataclass(frozen=True, kw_only=True)
class Queued(Accelerator):
    """Does all of its work when it is waited for; each batch that it was given is a unit of it."""

    clock: HandClock = field(default_factory=HandClock)
    queue: list = field(default_factory=list)

    @property
    def is_cpu(self):
        return False

    def move(self, batch):
        self.queue.append(batch)
        return batch

    def synchronise(self):
        self.clock.now += UNIT_SECONDS * len(self.queue)
        self.queue.clear()


@pytest.mark.parametrize(("slowdown", "seconds"), [(1.0, 2), (2.5, 5)])
def test_a_slowed_down_device_slows_its_accelerator_down(slowdown, seconds):
    """The thread that waits for it does no work. Both columns of all minibatches are moved together."""
    queued = Queued()
    model = LocalModel(make_spec(), None, accelerator=queued)
    trained = train(ThreadTrainer(model, slowdown, queued.clock), make_shards(12))
    assert trained.seconds == seconds * UNIT_SECONDS


def test_losses_are_timed_when_they_are_computed():
    queued = Queued()
    trainer = ThreadTrainer(LocalModel(make_spec(), None, accelerator=queued), clock=queued.clock)
    losses = asyncio.run(trainer.losses(trainer.initial_parameters(), make_shards(300)[0]))
    assert losses.seconds == 2 * UNIT_SECONDS  # two batches


def test_work_of_an_engine_ends_when_the_accelerator_has_done_it():
    queued = Queued()
    asyncio.run(ThreadEngine(accelerator=queued).run(lambda: queued.move(0), 0))
    assert (queued.queue, queued.clock.now) == ([], UNIT_SECONDS)


@pytest.mark.parametrize(("threads", "counts"), [(None, ()), (1, (1,))])
def test_threads_are_not_tried_where_they_do_not_train(threads, counts):
    machine = LiveMachine(threads=threads, accelerator=Queued())
    assert machine.trainer(make_spec()).thread_counts == counts


@pytest.mark.parametrize("compiles", [False, True])
def test_a_model_is_compiled_on_request(monkeypatch, compiles):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda forward: lambda x: compiled.append(len(x)) or forward(x))
    model = LocalModel(make_spec("two-nn"), accelerator=Accelerator(compiles=compiles))
    expected = LocalModel(make_spec("two-nn"))
    for one in (model, expected):
        assert sum(one.minibatches(one.state(), make_shards(10), seed=1)) == 10
    assert are_equal(model.parameters(), expected.parameters())
    assert compiled == [2, 4, 4, 2] * compiles  # a trial, and the minibatches


def test_a_compiler_that_does_not_work_is_named(monkeypatch):
    def fail(x):
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(torch, "compile", lambda function: fail)
    with pytest.raises(ConfigError, match="torch.compile does not work on cpu: no C"):
        find_accelerator("cpu", compiles=True)


def test_parts_of_a_split_model_are_not_compiled():
    machine = LiveMachine(accelerator=Accelerator(compiles=True))
    with pytest.raises(ConfigError, match="--compile is for devices that train rounds or epochs by themselves"):
        machine.engine(0.0)
