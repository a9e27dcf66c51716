"""How well audits tell honest learners from cheats: `python benchmarks/audits.py` (some ten minutes on two idle cores).

Each work is some shards to be trained from parameters that a few rounds have made. Honest learners do all of it in
other arithmetic than the auditor's: whatever changes rounding on this machine stands for other hardware. Cheats do part
of it, or something else, and claim all. Products of fewer digits are honest, but not what was asked for; they are
counted apart. MNIST must be found in PACELINE_DATA or the cache; `--quick` uses the digits that come with scikit-learn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

import commandline
from audit_learners import CHEATS, FEWER_DIGITS, HONEST, Learner, Work, old_processor, train
from contention import CpuSeconds
from paceline.learning.accelerators import Precision
from paceline.learning.audits import Claim, Retraining
from paceline.learning.datasets import DataSpec, load
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import ShardStore
from paceline.learning.training_spec import TrainingSpec
from repeats import Measurements, Progress
from report import MISSING, Page, significant

PACKAGES = ("paceline", "numpy", "torch")
OPTIMIZERS = {
    "SGD 0.1": OptimizerSpec(),
    "Adam 0.0001": OptimizerSpec(name="Adam", options={"lr": 1e-4}),
    "Adam 0.001": OptimizerSpec(name="Adam", options={"lr": 1e-3}),
}
OLD_PROCESSOR = "older processor"
CONFIDENCE = 1.96
"""Standard deviations on either side: 95 %."""


@dataclass(frozen=True)
class Model:
    """A model and its data, and how much of it a learner is given."""

    data: str
    name: str
    family: str
    """``dense`` or ``CNN``, and the precision, if not float32: the columns of the table."""
    num_shards: int
    shard_size: int
    precision: Precision = "float32"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The works: each model with each optimizer and number of local epochs, in each repeat."""

    models: tuple[Model, ...] = (
        Model("digits", "two-nn", "dense", 4, 100),
        Model("digits", "fashion-net", "CNN", 2, 100),
        Model("mnist", "two-nn", "dense", 2, 500),
        Model("mnist", "conv-net", "CNN", 2, 500),
    )
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS)
    local_epochs: tuple[int, ...] = (1, 5)
    rounds_before: tuple[int, ...] = (1, 4)
    """Taken in turns by the repeats."""
    num_repeats: int = 2


QUICK = Settings(
    models=(Model("digits", "two-nn", "dense", 2, 50),),
    optimizers=("SGD 0.1",),
    local_epochs=(1,),
    rounds_before=(1,),
    num_repeats=1,
)
"""A size for tests: shows that all of it runs, says nothing about errors."""


def work_name(model: Model, local_epochs: int) -> str:
    """What works are counted by; the optimizers take turns in each repeat."""
    return f"{model.data} {model.name} in {model.precision}, {local_epochs} ×"


def make_work(model: Model, optimizer: OptimizerSpec, local_epochs: int, rounds_before: int, seed: int) -> Work:
    """A work in the last of some rounds."""
    data = load(DataSpec(name=model.data))
    task = TrainingSpec.fitted(
        data, model=ModelSpec(name=model.name), optimizer=optimizer, batch_size=32, precision=model.precision, seed=seed
    )
    store, chance = ShardStore(data.train, model.shard_size, seed), np.random.default_rng(seed)
    local = LocalModel(task)
    start = start_before = local.parameters()
    num_full = len(data.train) // model.shard_size
    for number in range(rounds_before + 1):
        dealt = [store[index] for index in chance.permutation(num_full)[: 2 * model.num_shards]]
        shards, other_shards = dealt[: model.num_shards], dealt[model.num_shards :]
        claim = Claim(start, start, shards, local_epochs, number, local_epochs * model.num_shards * model.shard_size)
        work = Work(task=task, claim=claim, start_before=start_before, other_shards=other_shards)
        start_before, start = start, train(local, claim)
    return work


def measure(settings: Settings, learners: Mapping[str, Learner], on_progress: Progress) -> Measurements:
    """Judge every learner's claim about every work."""
    measurements, start = Measurements(settings), CpuSeconds.now()
    for repeat in range(settings.num_repeats):
        rounds_before = settings.rounds_before[repeat % len(settings.rounds_before)]
        for model in settings.models:
            for optimizer in settings.optimizers:
                for local_epochs in settings.local_epochs:
                    name = work_name(model, local_epochs)
                    on_progress(f"repeat {repeat + 1} of {settings.num_repeats}: {name}, {optimizer}")
                    work = make_work(model, OPTIMIZERS[optimizer], local_epochs, rounds_before, seed=repeat)
                    _judge_all(name, work, learners, measurements)
    measurements.cpu_share_of_others = CpuSeconds.now().share_of_others_since(start)
    return measurements


def _judge_all(name: str, work: Work, learners: Mapping[str, Learner], measurements: Measurements) -> None:
    retraining = Retraining(LocalModel(work.task), work.claim)
    for learner, do in learners.items():
        if learner == "one local epoch less" and work.claim.local_epochs == 1:
            continue
        claimed = do(work)
        verdict = retraining.judge(claimed)
        figures = {
            "first distance": retraining.distance(claimed),
            "distance": verdict.distance,
            "is_believed": float(verdict.is_honest),
        }
        measurements.add(learner, {f"{name}: {metric}": value for metric, value in figures.items()})


def wilson(num_errors: int, num_all: int) -> tuple[float, float]:
    """The interval of a rate by Wilson (1927), which holds also where no error was seen."""
    rate, z = num_errors / num_all, CONFIDENCE
    centre = (rate + z**2 / (2 * num_all)) / (1 + z**2 / num_all)
    half = z * math.sqrt(rate * (1 - rate) / num_all + z**2 / (4 * num_all**2)) / (1 + z**2 / num_all)
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Group:
    """Learners that are counted together."""

    text: str
    learners: tuple[str, ...]
    is_honest: bool


def groups_of(measurements: Measurements) -> list[Group]:
    """Each learner by itself, and all together that did honest work in the precision asked for."""
    is_asked_for = {name: name in HONEST or name == OLD_PROCESSOR for name in measurements.repeats}
    rows = [Group(name, (name,), is_asked_for[name] or name in FEWER_DIGITS) for name in measurements.repeats]
    together = tuple(name for name in measurements.repeats if is_asked_for[name])
    first = [Group("all of these", together, True)] if together else []
    return [*rows[: len(together)], *first, *rows[len(together) :]]


def page_of(measurements: Measurements) -> Page:
    """The table: how many claims were judged wrongly, by family of models and local epochs."""
    settings: Settings = measurements.settings
    families = sorted({model.family for model in settings.models}, reverse=True)
    columns = {
        f"{family}, {local_epochs} ×": [
            work_name(model, local_epochs) for model in settings.models if model.family == family
        ]
        for local_epochs in settings.local_epochs
        for family in families
    }
    return Page(
        setting="false alarms and misses, of claims that are audited",
        headings=["Learner", *columns, "judged wrongly", "95 % interval", "first distance", "to the nearest"],
        rows=[_row(measurements, group, list(columns.values())) for group in groups_of(measurements)],
    )


def _row(measurements: Measurements, group: Group, columns: Sequence[Sequence[str]]) -> list[str]:
    def values(metric: str, names: Iterable[str]) -> list[float]:
        found = (measurements.values(learner, f"{name}: {metric}") for name in names for learner in group.learners)
        return [*itertools.chain(*found)]

    judged = [values("is_believed", names) for names in columns]
    wrong = [sum(value != group.is_honest for value in believed) for believed in judged]
    num_errors, num_all = sum(wrong), sum(map(len, judged))
    if not num_all:
        return [group.text, *[MISSING] * (len(columns) + 4)]
    low, high = wilson(num_errors, num_all)
    extreme, sign = (max, "≤") if group.is_honest else (min, "≥")
    distances = [extreme(values(metric, itertools.chain(*columns))) for metric in ("first distance", "distance")]
    return [
        group.text,
        *(
            f"{number} of {len(believed)}" if believed else MISSING
            for number, believed in zip(wrong, judged, strict=True)
        ),
        f"{num_errors / num_all:.1%}",
        f"{low:.1%} to {high:.1%}",
        *(f"{sign} {significant(distance)}" for distance in distances),
    ]


def measure_systems(systems: Sequence[str], settings: Settings, on_progress: Progress) -> Measurements:
    """Judge the chosen learners."""
    torch.set_num_threads(1)
    with old_processor() as on_old_processor:
        known = {**HONEST, OLD_PROCESSOR: on_old_processor, **FEWER_DIGITS, **CHEATS}
        return measure(settings, {name: known[name] for name in systems}, on_progress)


if __name__ == "__main__":
    command = commandline.Command("audits", __doc__, (*HONEST, OLD_PROCESSOR, *FEWER_DIGITS, *CHEATS), PACKAGES)
    command.run((Settings(), QUICK), measure_systems, page_of)
