"""How much each stressor slows training and downloads: `python benchmarks/stressors.py` (ten to twenty minutes).

A device is a process that trains ThreeNN on images of MNIST's shape and downloads shards from this one; turns that are
idle and turns in the state alternate. It is reached over loopback and, if this is root on Linux, over a testbed's link
of 50 Mbit/s. With "one core" the process is pinned to one; with "one thread" PyTorch and BLAS have one each, as in a
local fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import commandline
import processes
from paceline import axon
from paceline.axon import loops
from paceline.devices.background_load import StressorLoad
from paceline.devices.states import DeviceState
from paceline.devices.stressors import MATRIX_SIZE
from paceline.errors import ConfigError
from paceline.fleets.testbed import TestbedDevice, tools
from paceline.fleets.testbed.testbed import build_testbed
from paceline.learning.datasets import Dataset
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.tables import ArrayTable
from paceline.learning.trainers import ThreadTrainer
from paceline.learning.training_spec import TrainingSpec
from repeats import Case, MeasurementFailed, Measurements, Progress, interleave
from report import Page, significant, whole

STATES = ("training", "downloading")
PROCESSORS = ("one core", "all cores", "all cores, one thread")
MEASURED = ("train", "download")
PACKAGES = ("paceline", "numpy", "torch")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Turn = Callable[[], Awaitable[float]]
"""Measures a rate once."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is trained and downloaded in a turn, in shards."""

    model: str = "three-nn"
    shard_size: int = 500
    batch_size: int = 50
    num_trained: int = 8
    num_fetched: int = 10
    """At a time, as many times as it takes."""
    least_seconds: float = 0.5
    """Of a turn of downloads."""
    link_mbit: float = 50.0
    num_turns: int = 2
    num_repeats: int = 5


QUICK = Settings(shard_size=50, num_trained=2, num_fetched=2, least_seconds=0.0, num_turns=1, num_repeats=1)
"""A size for tests: shows that all of it runs, says nothing about speed."""


# The orchestrator's side.


@dataclass(frozen=True)
class Place:
    """Where devices run: what they reach the orchestrator by, and what starts them there."""

    url: str
    prefix: tuple[str, ...] = ()


@contextlib.contextmanager
def places(settings: Settings) -> Iterator[dict[str, Place]]:
    """Serve wherever devices can be put on this machine, by what is told of their link."""
    worker = orchestrator(settings)
    with contextlib.ExitStack() as stack:
        found = {"loopback": Place(str(stack.enter_context(worker.serve(port=0))))}
        try:
            tools.check()
        except ConfigError as error:
            print(f"without a link of {settings.link_mbit:g} Mbit/s: {error}", file=sys.stderr)
        else:
            device = TestbedDevice(name="device", down_mbit=settings.link_mbit, up_mbit=settings.link_mbit)
            testbed = stack.enter_context(build_testbed([device]))
            # Nobody but the device is on the testbed's network.
            address = stack.enter_context(worker.serve(host=testbed.address, port=0, insecure=True))
            found[f"{settings.link_mbit:g} Mbit/s"] = Place(str(address), tuple(testbed.prefix(1)))
        yield found


def orchestrator(settings: Settings) -> axon.Worker:
    """Serves shards and matrices of random data."""
    worker, chance = axon.Worker("orchestrator"), np.random.default_rng(0)
    x = chance.integers(0, 256, (settings.shard_size, 1, 28, 28), dtype=np.uint8)
    y = chance.integers(0, 10, settings.shard_size, dtype=np.uint8)
    random_matrix = chance.random((MATRIX_SIZE, MATRIX_SIZE), dtype=np.float32)

    @worker.rpc(executor="loop")
    def shards(count: int) -> list[Shard]:
        return [Shard(x, y)] * count

    @worker.rpc(executor="loop")
    def matrix() -> np.ndarray:
        return random_matrix

    return worker


def case_of(place: Place, state: str, processor: str, settings: Settings) -> Case:
    """A device in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _THREADS}
    if processor.endswith("one thread"):
        environment |= dict.fromkeys(_THREADS, "1")
    arguments = ("device", place.url, state, json.dumps(dataclasses.asdict(settings)))
    command = (*place.prefix, sys.executable, "-m", "stressors", *arguments)

    def case(repeat: int) -> dict[str, float]:
        with contextlib.ExitStack() as stack:
            with pinned(is_pinned=processor == "one core"):
                device = stack.enter_context(
                    processes.child("lifeline", *command, stdout=subprocess.PIPE, environment=environment)
                )
            assert device.stdout is not None
            line = device.stdout.readline()
            if not line:
                raise MeasurementFailed(f"the device ended with code {device.wait()}")
            figures: dict[str, float] = json.loads(line)
            return figures

    return case


@contextlib.contextmanager
def pinned(*, is_pinned: bool) -> Iterator[None]:
    """Have processes that are started meanwhile stay on one core.

    They inherit it: a process that pins itself after loading BLAS has threads elsewhere already.
    """
    cores = os.sched_getaffinity(0)
    if is_pinned:
        os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


# The device's side.


async def measure(url: str, state: str, settings: Settings) -> dict[str, float]:
    """The rates of all turns, idle and in the state, by their medians; and the median of how many times slower."""
    figures = {}
    far = axon.connect(url)
    states = [DeviceState(name="idle", probability=1), DeviceState(name=state, probability=0)]
    load = StressorLoad(states, far.matrix.coro, random.Random(0))
    load.enter_phase("benchmark")
    try:
        for measured in MEASURED:
            idle, stressed = await alternate(load, await turn_of(measured, far, settings), settings.num_turns)
            figures |= {
                f"{measured}_idle": statistics.median(idle),
                f"{measured}_stressed": statistics.median(stressed),
                f"{measured}_slowdown": statistics.median(a / b for a, b in zip(idle, stressed, strict=True)),
            }
    finally:
        await load.aclose()
    return figures


async def alternate(load: StressorLoad, turn: Turn, num_turns: int) -> tuple[list[float], list[float]]:
    """Rates of turns in the two states of a load, each after a turn that does not count."""
    rates: tuple[list[float], list[float]] = [], []
    for _ in range(num_turns):
        for state, found in zip(load.states, rates, strict=True):
            with load.held_in(state):
                await turn()
                found.append(await turn())
    return rates


async def turn_of(measured: str, far: axon.Remote, settings: Settings) -> Turn:
    """Training, in samples per second; or downloads, in 10^6 bytes per second."""
    if measured == "train":
        shards = [Shard(*arrays) for arrays in await far.shards.coro(settings.num_trained)]
        trainer = ThreadTrainer(LocalModel(task_of(settings, shards[0])))

        async def train() -> float:
            trained = await trainer.train(trainer.initial_parameters(), shards)
            return trained.num_samples / trained.seconds

        return train

    async def download() -> float:
        loop, num_bytes = asyncio.get_running_loop(), 0
        start = loop.time()
        while not num_bytes or loop.time() - start < settings.least_seconds:
            num_bytes += sum(x.nbytes + y.nbytes for x, y in await far.shards.coro(settings.num_fetched))
        return num_bytes / 1e6 / (loop.time() - start)

    return download


def task_of(settings: Settings, shard: Shard) -> TrainingSpec:
    """What is trained: the thesis's task MNIST_FF, but for the images."""
    table = ArrayTable({"x": shard.x, "y": shard.y})
    return TrainingSpec.fitted(
        Dataset("random", table, table),
        model=ModelSpec(name=settings.model),
        optimizer=OptimizerSpec(name="Adam", options={"lr": 0.0001}),
        num_outputs=10,
        batch_size=settings.batch_size,
    )


def be_device(url: str, state: str, settings_json: str) -> None:
    """Measure, and print the figures as a line of JSON."""
    loop = loops.new_event_loop()
    try:
        figures = loop.run_until_complete(measure(url, state, Settings(**json.loads(settings_json))))
    finally:
        loops.shut_down(loop)
    print(json.dumps(figures), flush=True)


# Both.


def page_of(measurements: Measurements) -> Page:
    """The table."""

    def shown(name: str, measured: str) -> str:
        idle, stressed, slowdown = (
            measurements.median(name, f"{measured}_{figure}") for figure in ("idle", "stressed", "slowdown")
        )
        show = whole if measured == "train" else significant
        return f"{show(idle)} → {show(stressed)} ({significant(slowdown)}×)"

    settings = measurements.settings
    return Page(
        setting=f"{settings.model}, shards of {settings.shard_size} samples, idle → in the state (times slower)",
        headings=["State, link, processor", "training, samples/s", "download, MB/s"],
        rows=[[name, *(shown(name, measured) for measured in MEASURED)] for name in measurements.repeats],
    )


def measure_states(systems: Sequence[str], settings: Settings, on_progress: Progress) -> Measurements:
    """Put the device in every state, on every link and processor."""
    with places(settings) as found:
        cases = {
            f"{state}, {link}, {processor}": case_of(place, state, processor, settings)
            for state in systems
            for link, place in found.items()
            for processor in PROCESSORS
        }
        return interleave(cases, settings, on_progress)


if __name__ == "__main__":
    if sys.argv[1:2] == ["device"]:
        be_device(*sys.argv[2:])
    else:
        command = commandline.Command("stressors", __doc__, STATES, PACKAGES)
        command.run((Settings(), QUICK), measure_states, page_of)
