"""How well the subset benchmark predicts: `python benchmarks/subset.py` (a few minutes).

From n shards, the time to train TwoNN on 120 shards of MNIST (500 samples each), and the time to download 60 of them
over HTTP, plain and through a link of 50 Mbit/s with 5 ms of latency; beside it what counting operations predicts.
Mays et al. tell of at best 1 % (training, from 8) and 8 % (download, from 10). MNIST must be found in PACELINE_DATA or
the cache; `--quick` uses the digits that come with scikit-learn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

import commandline
from paceline import axon
from paceline.axon import loops
from paceline.axon.transports import FaultyTransport, HttpTransport, Link
from paceline.devices.flops import measure_flops, predict_training_seconds
from paceline.devices.subset_benchmark import fit_direction, measure_training, time_transfers
from paceline.learning.datasets import DataSpec
from paceline.learning.local_model import LocalModel
from paceline.learning.shards import Shard
from paceline.learning.trainers import ThreadTrainer
from paceline.topologies.parallel.jobs import Job
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job
from repeats import Case, Measurements
from report import Page

PACKAGES = ("paceline", "numpy", "torch")
LINKS = {"HTTP, loopback": None, "HTTP, 50 Mbit/s": Link(latency_seconds=0.005, down_bytes_per_second=50e6 / 8)}

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of benchmarks and of what they predict, in shards."""

    data: str = "mnist"
    shard_size: int = 500
    trained_from: tuple[int, ...] = (2, 4, 8)
    num_trained: int = 120
    downloaded_from: tuple[int, ...] = (2, 6, 10)
    num_downloaded: int = 60
    num_repeats: int = 9


QUICK = Settings(
    data="digits",
    shard_size=16,
    trained_from=(2,),
    num_trained=20,
    downloaded_from=(2,),
    num_downloaded=10,
    num_repeats=1,
)
"""A size for tests: shows that all of it runs, says nothing about errors."""


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run on the loop that devices use."""
    loop = loops.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loops.shut_down(loop)


def training_case(prepared: PreparedJob, num_shards: int, settings: Settings) -> Case:
    """Predict the training time of many shards from a few; both are measured, the actual one right after."""

    def case(repeat: int) -> dict[str, float]:
        return run(lambda: _train(prepared, num_shards, settings.num_trained))

    return case


async def _train(prepared: PreparedJob, num_shards: int, num_trained: int) -> dict[str, float]:
    trainer = ThreadTrainer(LocalModel(prepared.training))
    rate = await measure_training(trainer, prepared.draw(num_shards))
    flops = measure_flops()
    shards = prepared.draw(num_trained)
    num_samples = sum(shard.num_samples for shard in shards)
    actual = (await trainer.train(trainer.initial_parameters(), shards)).seconds
    # Two operations per parameter forward, four backward.
    by_operations = predict_training_seconds(flops, 6 * prepared.terms.model_bytes / 4, num_samples)
    return {"error": _error(num_samples / rate.per_second, actual), "flops_error": _error(by_operations, actual)}


def download_case(prepared: PreparedJob, link: Link | None, num_shards: int, settings: Settings) -> Case:
    """Predict the time to download many shards from that of a few, over HTTP in this machine."""

    def case(repeat: int) -> dict[str, float]:
        return run(lambda: _download(prepared, link, num_shards, settings.num_downloaded))

    return case


async def _download(prepared: PreparedJob, link: Link | None, num_shards: int, num_downloaded: int) -> dict[str, float]:
    worker = axon.Worker("orchestrator")

    @worker.rpc(executor="loop")
    def fetch(count: int) -> list[Shard]:
        return prepared.draw(count)

    http = HttpTransport()
    async with worker.serving(port=0) as address:
        remote = axon.connect(str(address), transport=http if link is None else FaultyTransport(http, link))

        async def transfer(count: int) -> int:
            return sum(x.nbytes + y.nbytes for x, y in await remote.fetch.coro(count))

        fitted = fit_direction(await time_transfers(lambda is_large: transfer(num_shards if is_large else 1)))
        start = asyncio.get_running_loop().time()
        num_bytes = await transfer(num_downloaded)
        actual = asyncio.get_running_loop().time() - start
    return {"error": _error(fitted.latency_seconds + num_bytes / fitted.rate.per_second, actual)}


def _error(predicted: float, actual: float) -> float:
    return abs(predicted - actual) / actual


def page_of(measurements: Measurements) -> Page:
    """The table."""

    def shown(name: str, metric: str) -> str:
        value = measurements.median(name, metric)
        return "–" if value is None else f"{value:.1%}"

    return Page(
        setting=f"shards of {measurements.settings.shard_size} samples of {measurements.settings.data}",
        headings=["Predicted", "error of the subset benchmark", "error of counting operations"],
        rows=[[name, shown(name, "error"), shown(name, "flops_error")] for name in measurements.repeats],
    )


def cases_of(systems: Sequence[str], settings: Settings) -> dict[str, Case]:
    """Predict training and downloads from few shards and from more."""
    torch.set_num_threads(1)
    data = DataSpec(name=settings.data, shard_size=settings.shard_size)
    prepared = prepare_job(Job(deadline_seconds=15, data=data))
    cases: dict[str, Case] = {}
    if "training" in systems:
        for count in settings.trained_from:
            cases[f"training {settings.num_trained} shards, from {count}"] = training_case(prepared, count, settings)
    if "download" in systems:
        for name, link in LINKS.items():
            for count in settings.downloaded_from:
                label = f"downloading {settings.num_downloaded} shards, from {count} ({name})"
                cases[label] = download_case(prepared, link, count, settings)
    return cases


if __name__ == "__main__":
    command = commandline.Command("subset", __doc__, ("training", "download"), PACKAGES)
    command.run((Settings(), QUICK), commandline.interleaved(cases_of), page_of)
