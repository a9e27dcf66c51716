"""What aggregated points cost, and what they are worth: Figs. 3, 7 and 8 of EdgeGossip, measured on one thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from paceline.learning import datasets
from paceline.learning.aggregated_points import COMPARED, PointsSpec, aggregate, average, divide, reduce
from paceline.learning.datasets import Dataset, DataSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.training_spec import TrainingSpec
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="Han et al., Figs. 3, 7 and 8",
    claim="Three of eight ways to aggregate points are fast and good; using the points takes little of an epoch.",
    duration="10 minutes",
    num_seeds=3,
)
PAIRS = tuple("+".join(pair) for pair in COMPARED)
CHOSEN, SLOW, HISTOGRAM = PAIRS[:3], PAIRS[3:7], PAIRS[7]
ORIGINALS = "as many originals"
RATIOS = (5, 10, 20)
RATIO = 5  # of Fig. 3
STEPS = ("reduce", "divide", "average")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model and its data.

    Attributes:
        num_samples: that are aggregated for Figs. 3a, 7 and 8.
        num_trained: that are trained to tell the time of an epoch.
    """

    name: str
    model: str
    data: str
    num_samples: int
    num_trained: int


LENET = Case(name="lenet-5", model="lenet-5", data="mnist", num_samples=50_000, num_trained=10_000)
ALEXNET = Case(name="alexnet", model="alexnet", data="cifar10", num_samples=20_000, num_trained=4_000)
CASES = (LENET, ALEXNET)
QUICK_CASES = tuple(
    Case(name=case.name, model="two-nn", data="digits", num_samples=600, num_trained=600) for case in CASES
)
# Of Fig. 3b; training AlexNet is slow.
ORIGINAL_SAMPLES, QUICK_ORIGINAL_SAMPLES = 5_000, 300
EPOCHS, QUICK_EPOCHS = 6, 2
TEST_SAMPLES = 2_000


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """Rows on generation (Figs. 3a and 7), on processing (Fig. 8) and on accuracy (Fig. 3b)."""
    cases = QUICK_CASES if is_quick else CASES
    with _one_thread():
        for case in cases:
            data = datasets.load(DataSpec(name=case.data))
            yield from _generation(case, data, seed)
            yield from _processing(case, data, seed)
        yield from _accuracy(cases[-1], data, seed, is_quick=is_quick)


def _generation(case: Case, data: Dataset, seed: int) -> Iterator[Row]:
    shard = _draw(data, case.num_samples, seed)
    _generate(shard.take(slice(200)), PointsSpec())  # loads what is needed
    for pair in PAIRS:
        for ratio in RATIOS if pair in CHOSEN else (RATIO,):
            if pair in CHOSEN or case.name == ALEXNET.name:
                seconds, num_points = _generate(shard, _spec(pair, ratio, seed))
                yield _row("generation", case, pair, ratio, points=num_points, **seconds)


def _generate(shard: Shard, spec: PointsSpec) -> tuple[dict[str, float], int]:
    """The seconds of each step, and how many points came of them."""
    reducing, features = _timed(lambda: reduce(shard.x, spec))
    dividing, sets = _timed(lambda: divide(features, shard.y, spec))
    averaging, points = _timed(lambda: average(*shard, sets))
    return dict(zip(STEPS, (reducing, dividing, averaging), strict=True)), len(points)


def _processing(case: Case, data: Dataset, seed: int) -> Iterator[Row]:
    model, shard = LocalModel(_task(case, data, seed)), _draw(data, case.num_samples, seed)
    start, part = model.state(), shard.take(slice(case.num_trained))
    list(model.minibatches(start, [shard.take(slice(256))], seed))  # warms up
    training, _ = _timed(lambda: list(model.minibatches(start, [part], seed)))
    epoch = training * case.num_samples / part.num_samples
    for ratio in RATIOS:
        points = aggregate(*shard, _spec("hash+k-means", ratio, seed))  # the quickest: all have about as many points
        seconds, _ = _timed(lambda points=points: list(model.losses(start, points.shard)))
        yield _row("processing", case, "", ratio, points=len(points), losses=seconds, epoch=epoch)


def _accuracy(case: Case, data: Dataset, seed: int, *, is_quick: bool) -> Iterator[Row]:
    shard = _draw(data, QUICK_ORIGINAL_SAMPLES if is_quick else ORIGINAL_SAMPLES, seed)
    for pair in (*PAIRS, ORIGINALS):
        if pair == ORIGINALS:
            points = shard.take(slice(shard.num_samples // RATIO))
        else:
            points = aggregate(*shard, _spec(pair, RATIO, seed)).shard
        model = LocalModel(_task(case, data, seed))
        for _ in model.minibatches(model.state(), [points], seed, QUICK_EPOCHS if is_quick else EPOCHS):
            pass
        scores = model.evaluate(model.state(), data.test.take(slice(TEST_SAMPLES)))
        accuracy = scores.metrics["accuracy"]
        yield _row("accuracy", case, pair, RATIO, points=points.num_samples, accuracy=100 * accuracy)


def _row(what: str, case: Case, pair: str, ratio: int, **figures: float) -> Row:
    """A row; figures that are not of its kind are empty."""
    columns: dict[str, Any] = dict.fromkeys(("points", *STEPS, "losses", "epoch", "accuracy"))
    rounded = {name: round(figure, 5) for name, figure in figures.items()}
    return {"what": what, "case": case.name, "pair": pair, "ratio": ratio, **columns, **rounded}


def _draw(data: Dataset, num_samples: int, seed: int) -> Shard:
    return data.train.take(np.random.default_rng(seed).permutation(len(data.train))[:num_samples])


def _spec(pair: str, ratio: int, seed: int) -> PointsSpec:
    reduction, division = pair.split("+")
    return PointsSpec(reduction=reduction, division=division, ratio=ratio, seed=seed)


def _task(case: Case, data: Dataset, seed: int) -> TrainingSpec:
    return TrainingSpec.fitted(
        data,
        model=ModelSpec(name=case.model),
        optimizer=OptimizerSpec(options={"lr": 0.01, "momentum": 0.9}),
        batch_size=64,
        seed=seed,
    )


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of CPU time, which other programs on the machine disturb least, and what the work gave."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(num_threads)


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the paper says of the three figures, and what else there is to tell."""
    return {**_of_fig_3(rows), **_of_fig_7(rows), **_of_fig_8(rows)}


def _of_fig_3(rows: Sequence[Row]) -> dict[str, float]:
    made = where(rows, what="generation", case=ALEXNET.name, ratio=RATIO)
    seconds = {row["pair"]: _total(row) for row in made}
    chosen = _mean([seconds[pair] for pair in CHOSEN])
    right = {row["pair"]: row["accuracy"] for row in where(rows, what="accuracy")}
    found = {f"{pair}: time over the mean of the three": seconds[pair] / chosen for pair in (*SLOW, HISTOGRAM)}
    found |= {f"{pair}: accuracy": accuracy for pair, accuracy in right.items()}
    lowest = min(right[pair] for pair in PAIRS if pair != HISTOGRAM)
    found[f"{HISTOGRAM}: accuracy, below the lowest other by"] = lowest - right[HISTOGRAM]
    found["accuracy of the three, above that of the four slow by"] = _mean([right[pair] for pair in CHOSEN]) - _mean(
        [right[pair] for pair in SLOW]
    )
    return found


def _of_fig_7(rows: Sequence[Row]) -> dict[str, float]:
    found = {}
    for case in CASES:
        (epoch,) = {row["epoch"] for row in where(rows, what="processing", case=case.name)}
        for pair in CHOSEN:
            made = {row["ratio"]: row for row in where(rows, what="generation", case=case.name, pair=pair)}
            shares = {step: _mean([100 * row[step] / _total(row) for row in made.values()]) for step in STEPS}
            name = f"{pair}, {case.name}"
            if pair.endswith("k-means"):
                found[f"{name}: share of the division"] = shares["divide"]
            else:
                found[f"{name}: share of the reduction"] = shares["reduce"]
            found[f"{name}: time at ratio 5 over that at 20"] = _total(made[5]) / _total(made[20])
            found[f"{name}: time over that of an epoch, ratio 10"] = 100 * _total(made[10]) / epoch
    return found


def _of_fig_8(rows: Sequence[Row]) -> dict[str, float]:
    found = {}
    for case in CASES:
        own = {row["ratio"]: row for row in where(rows, what="processing", case=case.name)}
        shares = {ratio: _share(row) for ratio, row in own.items()}
        found[f"{case.name}: share of processing, mean over ratios"] = _mean(list(shares.values()))
        found[f"{case.name}: share of processing, ratio 5 over ratio 20"] = shares[5] / shares[20]
        found[f"{case.name}: share of processing, mean over ratios, half of the data kept"] = _mean(
            [_share(row, kept=0.5) for row in own.values()]
        )
    return found


def _share(row: Row, kept: float = 1.0) -> float:
    """The share of an epoch that goes to the losses of points, in per cent."""
    return 100 * row["losses"] / (row["losses"] + kept * row["epoch"])


def _total(row: Row) -> float:
    return sum(row[step] for step in STEPS)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
