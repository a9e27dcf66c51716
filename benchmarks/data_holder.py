"""Holds data larger than memory, and prints its peak as JSON: `python -m data_holder KIND FOLDER SETTINGS`."""

from __future__ import annotations

import json
import sys
import tempfile
from time import perf_counter

import memory
import processes
from larger_than_memory import Settings
from paceline import DataSpec, Job, LocalDevice, LocalFleet, ModelSpec, train
from paceline.learning import datasets
from paceline.learning.shards import ShardStore
from paceline.topologies.parallel.events import RoundClosed


def opened(data: DataSpec, settings: Settings) -> dict[str, float]:
    """Only open it, and keep the order of its samples."""
    ShardStore(datasets.load(data).train, data.shard_size, seed=0)
    return {}


def taken(data: DataSpec, settings: Settings) -> dict[str, float]:
    """Take every shard once, in the shuffled order of the samples."""
    store = ShardStore(datasets.load(data).train, data.shard_size, seed=0)
    return {"taken_mb": sum(column.nbytes for shard in store for column in shard) / 1e6}


def trained(data: DataSpec, settings: Settings) -> dict[str, float]:
    """Serve it to two devices that train by a deadline."""
    job = Job(
        rounds=settings.rounds,
        deadline_seconds=settings.deadline_seconds,
        local_epochs=1,
        model=ModelSpec(name="two-nn"),
        data=data,
    )
    served: list[int] = []

    def count(event: object) -> None:
        if isinstance(event, RoundClosed):
            served.append(event.num_samples)

    with tempfile.TemporaryDirectory() as folder:
        fleet = LocalFleet([LocalDevice(name="one"), LocalDevice(name="two")])
        run = train(job, fleet, folder=f"{folder}/run", callbacks=[count], progress=False)
    assert run.accuracy is not None
    sample_bytes = 3 * settings.side**2 + 1
    return {"taken_mb": sum(served) * sample_bytes / 1e6, "accuracy": run.accuracy}


KINDS = {"open": opened, "take": taken, "train": trained}


def main() -> None:
    processes.exit_with_parent()
    kind, folder, rules = sys.argv[1:]
    settings = Settings(**json.loads(rules))
    data = DataSpec(path=folder, shard_size=settings.shard_size)
    start = perf_counter()
    figures = KINDS[kind](data, settings)
    figures["seconds"] = perf_counter() - start
    print(json.dumps({"peak_mb": memory.peak_bytes_of_this_process() / 1e6, **figures}))


if __name__ == "__main__":
    main()
