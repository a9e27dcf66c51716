"""How far predicted training times are off, by the subset benchmark and by FLOPS, over the benchmark's size."""

from __future__ import annotations

import contextlib
import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.fleets.fleet_files import load_fleet
from paceline.fleets.testbed import TestbedDevice, tools
from paceline.fleets.testbed.testbed import build_testbed
from paceline.learning import datasets
from paceline.learning.datasets import DataSpec
from reproduction import About, Row
from reproduction.companions import Companion, started
from reproduction.rows import where

ABOUT = About(
    figure="Mays, Fig. 3.2",
    claim="The subset benchmark predicts training times to about 1 %, up to 83 % better than FLOPS.",
    duration="25 minutes",
    num_seeds=10,
)
FLEET = Path(__file__).parents[2] / "examples" / "testbed" / "pi1-pi2-pi3-jetson.toml"
PROGRAM = Path(__file__).with_name("device.py")
SIZES, QUICK_SIZES = (2, 4, 6, 8), (2, 8)
MNIST, DIGITS = DataSpec(name="mnist", shard_size=500), DataSpec(name="digits", shard_size=16)
SHARDS, SHARDS_OF_A_PI = 120, 15  # to predict
REFERENCE, WHOLE = "one core", "all cores"
QUICK_EMULATED = ("jetson",)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device.

    Attributes:
        num_cores: the most that it gets of this machine.
        num_shards: whose training is predicted on it.
    """

    name: str
    num_cores: float
    num_shards: int
    program: Companion

    def train(self) -> dict[str, float]:
        """Have it train them, and tell how long that took."""
        return self.program.ask(what="train", num_shards=self.num_shards)


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per device, size of the benchmark and way to predict; one device after the other."""
    chance, on_reference = random.Random(seed), None
    with _devices(is_quick, seed) as devices:
        for device in devices:
            flops = device.program.ask(what="measure_flops")
            runs = [device.train()]
            for size in QUICK_SIZES if is_quick else SIZES:
                predicted = _predict(device.program, size, chance)
                predicted["same run before"] = runs[-1]["seconds_per_sample"]
                predicted["operations"] = flops["seconds_per_sample"]
                if on_reference is not None:  # seconds per sample times FLOPS
                    predicted["flops"] = on_reference / flops["flops"]
                runs.append(device.train())
                yield from _rows(device, size, predicted, runs[-1])
            if device.name == REFERENCE:
                on_reference = flops["flops"] * _mean([run["seconds_per_sample"] for run in runs])


def _predict(program: Companion, size: int, chance: random.Random) -> dict[str, float]:
    """Seconds per sample by both subset benchmarks, in random order."""
    ways = [("sb", "measure_training"), ("plain sb", "train")]
    chance.shuffle(ways)
    return {way: program.ask(what=what, num_shards=size)["seconds_per_sample"] for way, what in ways}


def _rows(device: Device, size: int, predicted: dict[str, float], actual: dict[str, float]) -> Iterator[Row]:
    num_samples = actual["seconds"] / actual["seconds_per_sample"]
    for way, seconds_per_sample in predicted.items():
        yield {
            "device": device.name,
            "size": size,
            "way": way,
            "predicted_seconds": round(num_samples * seconds_per_sample, 4),
            "seconds": round(actual["seconds"], 4),
            "off": round(100 * (seconds_per_sample / actual["seconds_per_sample"] - 1), 2),
            "cpu_got": round(100 * actual["busy_seconds"] / actual["seconds"] / device.num_cores, 1),
        }


@contextlib.contextmanager
def _devices(is_quick: bool, seed: int) -> Iterator[list[Device]]:
    """The devices, ready to be asked: this machine on one core and on all, and those that the testbed emulates."""
    tools.check()
    data = DIGITS if is_quick else MNIST
    datasets.load(data)  # what is missing is told here, and not by a device
    emulated = [device for device in load_fleet(FLEET, TestbedDevice) if not is_quick or device.name in QUICK_EMULATED]
    own = {REFERENCE: 1.0, WHOLE: float(len(os.sched_getaffinity(0)))}
    with build_testbed(emulated) as place, contextlib.ExitStack() as stack:

        def start(name: str, num_cores: float, prefix: Sequence[str]) -> Device:
            environment = {"OMP_NUM_THREADS": str(math.ceil(num_cores))}
            program = stack.enter_context(started(PROGRAM, prefix=prefix, environment=environment))
            num_shards = SHARDS_OF_A_PI if name.startswith("pi") else SHARDS
            return Device(name=name, num_cores=num_cores, num_shards=num_shards, program=program)

        devices = [start(name, num_cores, ()) for name, num_cores in own.items()]
        devices += [start(one.name, one.cpu_share, place.prefix(number)) for number, one in enumerate(emulated, 1)]
        for number, device in enumerate(devices, 1 - len(own)):
            device.program.ask(what="prepare", seed=seed, data=data.name, shard_size=data.shard_size)
            if number > 0:  # emulated; PyTorch was loaded without a limit, which is not what is emulated
                place.limit(number, device.num_cores)
                place.adopt(number, device.program.process_id)
        yield devices


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the thesis says of the figure, and what else there is to tell; the reference is no device to predict."""
    largest = max(row["size"] for row in rows)
    others = [row for row in rows if row["device"] != REFERENCE]
    at_most, at_least = where(others, size=largest), where(others, size=SIZES[0])
    found = {
        "sb: error from 8 shards": _error(at_most, "sb"),
        "sb: error from 2 shards": _error(at_least, "sb"),
        "sb: bias from 8 shards": _mean([row["off"] for row in where(at_most, way="sb")]),
        "sb: error from 8 shards, less than that of flops by": 100
        * (1 - _error(at_most, "sb") / _error(at_most, "flops")),
        "plain sb: error from 8 shards": _error(at_most, "plain sb"),
        "plain sb: error from 2 shards, more than from 8 by": _error(at_least, "plain sb")
        - _error(at_most, "plain sb"),
        "plain sb: bias from 8 shards": _mean([row["off"] for row in where(at_most, way="plain sb")]),
        "flops: error": _error(others, "flops"),
        "flops: bias": _mean([row["off"] for row in where(others, way="flops")]),
        "flops: error, devices on one core": _error([row for row in others if row["device"] != WHOLE], "flops"),
        "operations: error": _error(others, "operations"),
        "same run before: error": _error(others, "same run before"),
        "CPU time that devices on one core got": _mean([row["cpu_got"] for row in rows if row["device"] != WHOLE]),
    }
    for device in sorted({row["device"] for row in rows}):
        found[f"sb: error from 8 shards, {device}"] = _error(where(rows, size=largest, device=device), "sb")
    return found


def _error(rows: Sequence[Row], way: str) -> float:
    """The mean error, in per cent."""
    return _mean([abs(row["off"]) for row in where(rows, way=way)])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
