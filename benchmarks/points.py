"""What aggregated points cost: `python benchmarks/points.py` (a quarter of an hour).

Seconds to aggregate 50,000 samples of MNIST and 20,000 of CIFAR-10, step by step, for each pair of a reduction and a
division that Han et al. (2021) compare, and at their ratios of samples to a point; beside it the time of one epoch of
training LeNet-5 and AlexNet on the same samples, measured in the same run. Seconds are CPU time of one thread, which
other programs on the machine disturb least. The datasets must be found in PACELINE_DATA or the cache; `--quick` uses
the digits that come with scikit-learn.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for scikit-learn and NumPy, before they are loaded

import torch

import commandline
from paceline.learning import datasets
from paceline.learning.aggregated_points import COMPARED, PointsSpec, average, divide, reduce
from paceline.learning.datasets import DataSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.training_spec import TrainingSpec
from repeats import Case, Measurements
from report import MISSING, Page, significant

PACKAGES = ("paceline", "numpy", "scikit-learn", "torch")
SYSTEMS = ["+".join(pair) for pair in COMPARED]
STEPS = ("reduce", "divide", "average")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is aggregated.

    Attributes:
        data: names of datasets, how many samples of each, and the model that is trained on them.
        epoch_samples: that are trained to tell the time of an epoch.
    """

    data: tuple[tuple[str, int, str], ...] = (("mnist", 50_000, "lenet-5"), ("cifar10", 20_000, "alexnet"))
    ratios: tuple[int, ...] = (5, 10, 20)
    epoch_samples: int = 5_000
    num_repeats: int = 3


QUICK = Settings(data=(("digits", 500, "two-nn"),), ratios=(10,), epoch_samples=500, num_repeats=1)
"""A size for tests: shows that all of it runs, says nothing about times."""


@functools.cache
def samples_of(name: str, num_samples: int) -> tuple[Shard, datasets.Dataset]:
    """The first samples of a dataset, all classes mixed."""
    data = datasets.load(DataSpec(name=name))
    return data.train.take(slice(num_samples)), data


def points_case(name: str, num_samples: int, pair: str, ratio: int) -> Case:
    """Aggregate once, each step by the clock."""

    def case(repeat: int) -> dict[str, float]:
        (x, y), _ = samples_of(name, num_samples)
        reduction, division = pair.split("+")
        spec = PointsSpec(reduction=reduction, division=division, ratio=ratio, seed=repeat)
        times = [time.process_time()]
        features = reduce(x, spec)
        times.append(time.process_time())
        sets = divide(features, y, spec)
        times.append(time.process_time())
        points = average(x, y, sets)
        times.append(time.process_time())
        steps = {f"{step}_seconds": times[number + 1] - times[number] for number, step in enumerate(STEPS)}
        return {**steps, "seconds": times[-1] - times[0], "num_points": len(points)}

    return case


def epoch_case(name: str, num_samples: int, model: str, settings: Settings) -> Case:
    """Train on some of the samples after a few to warm up, and find the losses of as many: for all of the samples."""

    def case(repeat: int) -> dict[str, float]:
        samples, data = samples_of(name, num_samples)
        task = TrainingSpec.fitted(
            data,
            model=ModelSpec(name=model),
            optimizer=OptimizerSpec(options={"lr": 0.01, "momentum": 0.9}),
            batch_size=64,
        )
        model_here, shard = LocalModel(task), samples.take(slice(settings.epoch_samples))
        start, few = model_here.state(), samples.take(slice(256))
        list(model_here.minibatches(start, [few], seed=0))
        times = [time.process_time()]
        list(model_here.minibatches(start, [shard], seed=0))
        times.append(time.process_time())
        list(model_here.losses(start, shard))
        times.append(time.process_time())
        scale = num_samples / shard.num_samples
        return {"seconds": (times[1] - times[0]) * scale, "forward_seconds": (times[2] - times[1]) * scale}

    return case


def epoch_name(model: str) -> str:
    return f"one epoch of {model}"


def page_of(measurements: Measurements) -> Page:
    """The table."""
    epochs = {data: measurements.median(epoch_name(model), "seconds") for data, _, model in measurements.settings.data}

    def row(name: str) -> list[str]:
        cells = [significant(measurements.median(name, f"{step}_seconds")) for step in STEPS]
        seconds = measurements.median(name, "seconds")
        epoch = next((epochs[data] for data in epochs if name.startswith(data)), None)
        share = MISSING if epoch is None or seconds is None else f"{seconds / epoch:.1%}"
        return [name, *cells, significant(seconds), share]

    sizes = " and ".join(f"{count:,} samples of {data}" for data, count, _ in measurements.settings.data)
    return Page(
        setting=f"{sizes}, seconds of CPU time, one thread",
        headings=["Points", *STEPS, "in all", "of an epoch of training"],
        rows=[row(name) for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Every pair with every ratio, beside an epoch of training on the same data."""
    torch.set_num_threads(1)
    for pair in systems:  # loads what is needed
        points_case("digits", 100, pair, 10)(0)
    cases: dict[str, Case] = {}
    for name, num_samples, model in settings.data:
        cases[epoch_name(model)] = epoch_case(name, num_samples, model, settings)
        for pair in systems:
            for ratio in settings.ratios:
                cases[f"{name}, {pair}, ratio {ratio}"] = points_case(name, num_samples, pair, ratio)
    return cases


if __name__ == "__main__":
    command = commandline.Command("points", __doc__, SYSTEMS, PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
