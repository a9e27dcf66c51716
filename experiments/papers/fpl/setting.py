"""The setting of flexible parallel learning (Malandrino and Chiasserini, 2022, section III): sources, cell and schemes.

The paper has one server that runs all nodes. Here every node is as fast as a core of the machine that the network was
measured on, which is ours, and the README of fpl-costs says so.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from paceline.devices.lte_cell import Cell
from paceline.fleets.devices import in_cell
from paceline.fleets.modelled import VirtualDevice
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.split.jobs import AveragingSpec, SplitJob
from paceline.topologies.split.prepared import PreparedSplit, prepare_split
from reproduction.trials import drawn_part

NUM_SOURCES = 5
PAPER_SAMPLES = 697_932  # EMNIST's by-class training part; the paper does not say how many of all 814,255 it trains on
SAMPLES_PER_SECOND = 500.0  # ours: of the whole network with Adam, minibatches of 64, measured on one core
BATCH_SIZE = 64  # ours: the paper tells none
MU = 0.1  # ours: the paper tells no strength of FedProx
# A source is waited for, however slow its link: else it would be left out while it sends a model.
PATIENCE_SECONDS = 3600.0
_PLAIN = JunctionSpec(start="plain")  # as PyTorch's linear layers begin; the paper tells no other

IMAGES, SPLIT, FEDAVG = "images", "sl", "fedavg"
GFL_FF, GFL_CFF = "gfl f1/f2", "gfl c2/f1/f2"
FPL_F1, FPL_F2 = "fpl j>f1", "fpl j>f2"
GFLS, FPLS = (GFL_FF, GFL_CFF), (FPL_F1, FPL_F2)
AVERAGE_START = "fpl j>f2, average"

SCHEMES: Mapping[str, Mapping[str, Any]] = {
    IMAGES: {"scheme": "images"},
    SPLIT: {"scheme": "split-learning", "cut": "f1"},
    GFL_FF: {"scheme": "gfl", "averaging": AveragingSpec(layers=("f1", "f2"), mu=MU)},
    GFL_CFF: {"scheme": "gfl", "averaging": AveragingSpec(layers=("c2", "f1", "f2"), mu=MU)},
    FPL_F1: {"scheme": "fpl", "cut": "f1", "junction": _PLAIN},
    FPL_F2: {"scheme": "fpl", "cut": "f2", "junction": _PLAIN},
    FEDAVG: {"scheme": "gfl"},
    AVERAGE_START: {"scheme": "fpl", "cut": "f2", "junction": JunctionSpec(start="average")},
}
"""Rules of a job by the name of the scheme; the last two are ours."""

PAPER_SCHEMES = (IMAGES, SPLIT, *GFLS, *FPLS)

NAMES = {
    IMAGES: "transfer images",
    SPLIT: "SL",
    GFL_FF: "gFL: F1/F2",
    GFL_CFF: "gFL: C2/F1/F2",
    FPL_F1: "FPL: J→F1",
    FPL_F2: "FPL: J→F2",
    FEDAVG: "FedAvg (ours)",
    AVERAGE_START: "FPL: J→F2, begins as the mean (ours)",
}
"""As the paper has them."""


class Size(NamedTuple):
    """How much is trained.

    Attributes:
        num_test_samples: on which the validation loss is told.
        epochs: at most.
        patience: training ends when the loss has not fallen for so many; None for never.
    """

    num_samples: int
    num_test_samples: int
    epochs: int
    patience: int | None


class Case(NamedTuple):
    """A scheme of `SCHEMES`, and what it is tried on."""

    scheme: str
    size: Size
    seed: int
    data: str = "emnist"


def job_of(case: Case, data: DataSpec) -> SplitJob:
    """Build the paper's job, by the rules of a scheme."""
    fields: dict[str, Any] = {
        "epochs": case.size.epochs,
        "patience": case.size.patience,
        "batch_size": BATCH_SIZE,
        "sources": NUM_SOURCES,
        "patience_seconds": PATIENCE_SECONDS,
        "backup_epochs": 0,  # copies for sources that fail would count as traffic; none fails
        "seed": case.seed,
        "optimizer": OptimizerSpec(name="Adam", options={"lr": 0.001}),
        "data": data,
        **SCHEMES[case.scheme],
    }
    return SplitJob(**fields)


def prepared(case: Case) -> PreparedSplit:
    """Return the job of a case, prepared, with a part of the data that is drawn anew for each seed."""
    return _prepared(case.size, case.seed, case.data)[case.scheme]


def shortened(whole: PreparedSplit, num_samples: int) -> PreparedSplit:
    """Cut a job down to so few samples, and one to test on, to measure what training takes, not what it learns."""
    data = whole.dataset
    train, test = data.train.reordered(np.arange(num_samples)), data.test.reordered(np.arange(1))
    return replace(whole, dataset=replace(data, train=train, test=test))


def devices_of(case: Case) -> list[VirtualDevice]:
    """Place the sources in the cell, anew for each seed, and the trunk at its eNB."""
    source = VirtualDevice(name="camera", count=NUM_SOURCES, samples_per_second=SAMPLES_PER_SECOND)
    trunk = VirtualDevice(name="edge", samples_per_second=SAMPLES_PER_SECOND, is_server=True)
    return [*in_cell(Cell(seed=case.seed), [source]), trunk]


@functools.lru_cache(maxsize=1)
def _prepared(size: Size, seed: int, data: str) -> dict[str, PreparedSplit]:
    """Prepare the jobs of all schemes, over one part of the data."""
    with drawn_part(
        DataSpec(name=data), num_samples=size.num_samples, num_test_samples=size.num_test_samples, seed=seed
    ) as part:
        return {scheme: prepare_split(job_of(Case(scheme, size, seed, data), part)) for scheme in SCHEMES}
