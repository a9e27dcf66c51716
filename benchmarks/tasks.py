"""Trains every kind of task in every topology, on virtual time, and writes a table: `python benchmarks/tasks.py`.

The tasks are those of examples/, on two devices of unequal speed, and small: each run takes seconds. Images are 1,500
of CIFAR-10 if that is found in PACELINE_DATA or the cache, and else the digits that come with Paceline, enlarged. A
result stands beside what is reached without learning: the most frequent class, the mean of the targets, every label,
the letters' frequencies. Nothing here depends on the speed of the machine. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import runpy
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from paceline import GossipJob, Job, Pool, Run, SplitJob, ViewSpec, VirtualDevice, VirtualFleet, load_job, train
from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.datasets import Dataset, DataSpec
from paceline.topologies.base import JobSpec

EXAMPLES = Path(__file__).parents[1] / "examples"
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A task, and by what it is judged.

    Attributes:
        job: its job file, within examples/.
        trivial: what the metric is without learning, on test data with these labels.
        margin: how much better it has to become.
        epochs: passes over the data, in all topologies.
        cut: layer before which its model is cut; one that is no chain of layers cannot be.
    """

    job: str
    metric: str
    trivial: Callable[[np.ndarray], float]
    margin: float
    epochs: int
    cut: str = "3"

    def is_learned(self, found: float, without: float) -> bool:
        """Return whether a figure is better than what is reached without learning, by the margin."""
        return without - found > self.margin if self.metric == "perplexity" else found - without > self.margin


def largest_class(labels: np.ndarray) -> float:
    """Accuracy of the most frequent class."""
    return float(np.bincount(labels).max() / len(labels))


def every_label(labels: np.ndarray) -> float:
    """F1 of giving each sample every label."""
    return float(2 * labels.mean() / (1 + labels.mean()))


def frequencies(labels: np.ndarray) -> float:
    """Perplexity of the letters' frequencies."""
    shares = np.bincount(labels.ravel()) / labels.size
    return float(np.exp(-(shares[shares > 0] * np.log(shares[shares > 0])).sum()))


CASES = {
    "classification: CNN, augmentation, cosine": Case(
        job="classification/job.toml", metric="accuracy", trivial=largest_class, margin=0.15, epochs=8, cut="7"
    ),
    "regression: diabetes": Case(
        job="regression/job.toml", metric="r2", trivial=lambda labels: 0.0, margin=0.3, epochs=20
    ),
    "multi-label: properties of digits": Case(
        job="multi-label/job.toml", metric="micro_f1", trivial=every_label, margin=0.25, epochs=6
    ),
    "text classification, built in": Case(
        job="text/job.toml", metric="accuracy", trivial=largest_class, margin=0.2, epochs=6
    ),
    "text classification, a task of one's own": Case(
        job="text/own.toml", metric="accuracy", trivial=largest_class, margin=0.2, epochs=8
    ),
    "language model of letters": Case(
        job="language-model/job.toml", metric="perplexity", trivial=frequencies, margin=5.0, epochs=5
    ),
    "table: wine": Case(job="tabular/wine.toml", metric="accuracy", trivial=largest_class, margin=0.4, epochs=20),
    "table: breast cancer": Case(
        job="tabular/breast-cancer.toml", metric="accuracy", trivial=largest_class, margin=0.25, epochs=10
    ),
}


def parallel(job: Job, case: Case) -> JobSpec:
    """The orchestrator serves shards."""
    rules = {"rounds": case.epochs // 2, "local_epochs": 2, "deadline_seconds": 60.0, "min_learners": 2}
    return msgspec.structs.replace(job, **rules)


def federated(job: Job, case: Case) -> JobSpec:
    """Data stays on the devices, which have unequal parts of it."""
    served = parallel(job, case)
    local, partition = msgspec.structs.replace(job.data, placement="local"), {"kind": "quantity", "size_skew": 0.5}
    return Job(**{**msgspec.structs.asdict(served), "data": local, "partition": partition})


def pool(job: Job, case: Case) -> JobSpec:
    """The job shares the fleet with another."""
    other = Job(name="digits", rounds=1, deadline_seconds=60.0)
    one = msgspec.structs.replace(parallel(job, case), name="task")
    return Pool(jobs=(one, other), min_learners=2, allocation={"policy": "med", "budget": 1000})


def gossip(job: Job, case: Case) -> JobSpec:
    """Peers without a server."""
    return GossipJob(epochs=case.epochs, evaluate_samples=0, **shared(job))


def split(job: Job, case: Case) -> JobSpec:
    """One model over two sources that see the same; what changes batches on devices is for whole models."""
    tables = shared(job)
    tables["data"] = msgspec.structs.replace(job.data, transform=None)
    return SplitJob(epochs=case.epochs, sources=2, cut=case.cut, view=(ViewSpec(),), **tables)


def shared(job: Job) -> dict[str, object]:
    """What jobs of all topologies have."""
    return {name: getattr(job, name) for name in ("task", "model", "optimizer", "data", "batch_size")}


TOPOLOGIES: dict[str, Callable[[Job, Case], JobSpec]] = {
    "parallel": parallel,
    "federated": federated,
    "pool": pool,
    "gossip": gossip,
    "split": split,
}


def write_examples(folder: Path) -> Path:
    """Copy examples/ and make the data that their jobs name; returns the copy."""
    copy = folder / "examples"
    shutil.copytree(EXAMPLES, copy)
    for script in sorted(copy.glob("*/write_data.py")):
        runpy.run_path(str(script))
    write_images(copy / "classification/images.npz")
    job = copy / "classification/job.toml"
    job.write_text(job.read_text().replace('name = "cifar10"', 'path = "images.npz"\nshard_size = 50'))
    return copy


def write_images(path: Path) -> None:
    """Write some images of 3×32×32 in ten classes."""
    try:
        data = datasets.load(DataSpec(name="cifar10"))
        enlarge = 1
    except ConfigError:
        data = datasets.load(DataSpec(name="digits"))
        enlarge = 4
    chance, parts = np.random.default_rng(0), {}
    for part, table, count in (("train", data.train, 1500), ("test", data.test, 500)):
        x, y = table.take(chance.permutation(len(table))[:count])
        grown = x.repeat(enlarge, 2).repeat(enlarge, 3)
        parts |= {f"x_{part}": np.broadcast_to(grown, (len(x), 3, 32, 32)), f"y_{part}": y}
    np.savez(path, **parts)


def run_case(case: Case, topology: str, examples: Path, folder: Path) -> Run:
    """Train a task in a topology; raises `ConfigError` where that cannot be."""
    job = load_job(examples / case.job)
    assert isinstance(job, Job)
    fleet = VirtualFleet(
        [
            VirtualDevice(name="laptop", samples_per_second=800, down_mbit=100, up_mbit=100),
            VirtualDevice(name="pi", samples_per_second=300, down_mbit=50, up_mbit=50),
        ]
    )
    run = train(TOPOLOGIES[topology](job, case), fleet, folder=folder, progress=False)
    return run.jobs["task"] if topology == "pool" else run


def test_data(case: Case, examples: Path) -> Dataset:
    """Load the data of a task."""
    return datasets.load(load_job(examples / case.job).data)


def main() -> None:
    """Run all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=RESULTS / "tasks.md", help="the table (default %(default)s)")
    output, rows, refusals = parser.parse_args().output, [], {}
    with tempfile.TemporaryDirectory() as folder:
        examples = write_examples(Path(folder))
        for number, (name, case) in enumerate(CASES.items()):
            cells = [case.metric, f"{case.trivial(test_data(case, examples).test.labels()):.3f}"]
            for topology in TOPOLOGIES:
                try:
                    run = run_case(case, topology, examples, Path(folder) / f"{topology}-{number}")
                    cells.append(f"{run.metrics[case.metric]:.3f}")
                except ConfigError as error:
                    reason = str(error).replace(f"{examples}/", "")
                    cells.append(f"no ({refusals.setdefault(reason, len(refusals) + 1)})")
                print(name, topology, cells[-1], flush=True)
            rows.append([name, *cells])
    table = [["task", "metric", "without learning", *TOPOLOGIES], ["---"] * 2 + ["---:"] * (1 + len(TOPOLOGIES)), *rows]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    notes = [f"({number}) `{reason}`" for reason, number in refusals.items()]
    output.write_text("\n".join(lines) + "\n\n" + "\n\n".join(notes) + "\n")


if __name__ == "__main__":
    main()
