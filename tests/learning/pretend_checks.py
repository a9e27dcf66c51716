"""Training on the accelerator of `python_backend`, beside the CPU: a process of its own, which prints JSON."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import torch

from paceline import DataSpec, GossipJob, Job, SplitJob, VirtualDevice, VirtualFleet, train
from paceline.devices.flops import measure_flops
from paceline.devices.machines import LiveMachine
from paceline.devices.subset_benchmark import measure_training
from paceline.errors import ConfigError
from paceline.learning.accelerators import CPU, find_accelerator
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.trainers import Clock, ThreadTrainer, TrainOptions
from tests.learning import python_backend
from tests.learning.small_tasks import are_equal, digits_spec, make_shards, make_spec

QUICK = {"epochs": 1, "model": "two-nn", "data": "digits"}
SERVED = {"deadline_seconds": 1.0, "rounds": 2, "benchmark_shards": 2}
JOBS = {
    "job": Job(**SERVED, data=DataSpec(name="digits", shard_size=64), audit_rate=1.0),
    "mixing": GossipJob(**QUICK),
    "fpl": SplitJob(**QUICK, cut="3", sources=2, depth=2, junction={"form": "low-rank", "rank": 4}),
    "split-learning": SplitJob(**QUICK, scheme="split-learning", cut="3", sources=2),
    "gfl": SplitJob(**QUICK, scheme="gfl", sources=2),
    "images": SplitJob(**QUICK, scheme="images", sources=2),
}


class QueueClock(Clock):
    """Time is what the accelerator has done: nothing else takes any."""

    def time(self):
        return float(python_backend.queue.num_done)


def names(pretend):
    """What this machine has, and what it says of anything else."""
    try:
        find_accelerator("cuda")
    except ConfigError as error:
        return [pretend.name, str(error)]


def learns_alike(pretend):
    """Whether a convolutional network comes out the same, and stays on the accelerator."""
    spec, data = digits_spec(model=ModelSpec(name="fashion-net"))
    shard, test = data.train.take(slice(128)), data.test.take(slice(64))
    results = []
    for accelerator in (CPU, pretend):
        model = LocalModel(spec, accelerator=accelerator)
        num_samples = sum(model.minibatches(model.state(), [shard], seed=1))
        state = model.state()
        losses = [value for part in model.losses(state, shard) for value in part.tolist()]
        results.append([num_samples, losses, model.evaluate(state, test)])
        results.append(model.parameters())
        devices = {parameter.device.type for parameter in model.module.parameters()}
        assert devices == {accelerator.device.type}
        assert all(tensor.device.type == "cpu" for tensor in state.values())
    return results[0] == results[2] and are_equal(results[1], results[3])


def left_behind(pretend):
    """What is said of a model that makes a tensor on the CPU."""
    try:
        LocalModel(make_spec("LeftBehind"), None, accelerator=pretend)
    except ConfigError as error:
        return str(error)


def timings(pretend):
    """How long the accelerator worked on the minibatches, and what the trainer says of it, in all and when halted."""
    queue, shards = python_backend.queue, make_shards(20)
    model = LocalModel(make_spec("two-nn"), accelerator=pretend)
    trainer = ThreadTrainer(model, clock=QueueClock())
    state = trainer.initial_parameters()

    async def run(until):
        return await trainer.train(state, shards, TrainOptions(until=asyncio.get_running_loop().time() + until))

    whole = asyncio.run(run(1e9))
    minibatch = whole.seconds / 5
    halted = asyncio.run(run(2.5 * minibatch))
    return {
        "seconds": whole.seconds,
        "halted": [halted.num_samples, halted.is_halted],
        "is_idle": queue.num_queued < minibatch / 2,  # reading the parameters takes a few operations
    }


def benchmarks(pretend):
    """Whether the FLOPS baseline, the subset benchmark and an engine wait; and that no threads are tried."""
    queue, machine = python_backend.queue, LiveMachine(accelerator=pretend)
    trainer = machine.trainer(make_spec("two-nn"))
    waits = []

    def waited():
        waits.append(queue.num_waits)
        queue.num_waits = 0

    waited()
    measure_flops(pretend)
    waited()
    asyncio.run(measure_training(trainer, make_shards(20)))
    waited()
    asyncio.run(machine.engine(0.0).run(lambda: None, 0))
    waited()
    return {"waits": waits[1:], "threads": [*trainer.thread_counts, trainer.num_threads]}


def runs_alike(pretend):
    """Which jobs come out the same on a virtual fleet."""
    devices = [VirtualDevice(name="pi", count=2, samples_per_second=1500)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, job in JOBS.items():
            ends = []
            for device in ("cpu", pretend.name):
                fleet = VirtualFleet(devices, device=device)
                run = train(job, fleet, folder=Path(folder) / f"{name}-{device}", progress=False)
                ends.append((run.metrics, run.state))
            (one, state), (other, other_state) = ends
            found[name] = one == other and are_equal(state, other_state)
    return found


def short_precision(pretend):
    """What is said of a precision that the accelerator does not have."""
    try:
        LocalModel(make_spec("two-nn", precision="bfloat16"), accelerator=pretend)
    except ConfigError as error:
        return str(error)


def all_digits(pretend):
    """Whether TF32 is off."""
    return [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32]


CHECKS = (names, learns_alike, left_behind, timings, benchmarks, runs_alike, short_precision, all_digits)

if __name__ == "__main__":
    python_backend.set_up()
    found = {check.__name__: check(find_accelerator()) for check in CHECKS}
    json.dump(found, sys.stdout)
