"""The data of a device's own that it trains on where data stays on the devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from paceline.errors import ConfigError
from paceline.learning import datasets, sources
from paceline.learning.datasets import DataSpec
from paceline.learning.partitions import PartitionSpec, split
from paceline.learning.tables import Table
from paceline.topologies.base import DeviceOptions
from paceline.topologies.parallel.messages import Offer

OwnData: TypeAlias = Callable[[Offer], Table]
"""Returns the samples and labels of a device for a job that it is offered; they never leave it."""


def own_data_of(options: DeviceOptions) -> OwnData | None:
    """Return the data that the owner of a device named: a file, or a part of the job's data; None if there is none."""
    if options.part is not None:
        number, count = options.part

        def part_of(offer: Offer) -> Table:
            if options.data is None and not offer.dataset:
                raise ConfigError("this job's data is a file: pass a part of your copy of it, --data PATH:I/N")
            data = _data_of(offer, options.data)
            return cut(data, count, offer.partition, offer.training.seed)[number - 1]

        return part_of
    if options.data is None:
        return None
    own = options.data
    return lambda offer: sources.load_own(own, offer.reading)


def _data_of(offer: Offer, own: str | None) -> DataSpec:
    """Return the data that a part is of: the job's, or a copy that the device has."""
    try:
        if own is None:
            return DataSpec(name=offer.dataset)
        return DataSpec.at(own, offer.reading)
    except ValueError as error:
        raise ConfigError(f"the data of this job is not known here: {error}") from error


def cut(data: DataSpec, num_devices: int, partition: PartitionSpec, seed: int) -> Sequence[Table]:
    """Split the training data of a job among so many devices; raises `ConfigError`."""
    dataset = datasets.load(data)
    parts = split(dataset, data, num_devices, partition, seed)
    return [dataset.train.reordered(part) for part in parts]
