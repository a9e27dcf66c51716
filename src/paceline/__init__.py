"""Paceline trains PyTorch models on fleets of unequal edge devices, all done by the deadline.

The names below are loaded when they are first used, so that what needs no PyTorch starts without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.allocation import (
        AdaptiveDabAllocation,
        DabAllocation,
        EqualAllocation,
        MedAllocation,
        MmttAllocation,
    )
    from paceline.devices.states import DeviceState
    from paceline.fleets.local import LocalDevice, LocalFleet
    from paceline.fleets.modelled import VirtualDevice
    from paceline.fleets.testbed import TestbedDevice, TestbedFleet
    from paceline.fleets.virtual import VirtualFleet
    from paceline.learning.averaging import AggregationSpec
    from paceline.learning.datasets import DataSpec
    from paceline.learning.models import ModelSpec
    from paceline.learning.tasks import OptimizerSpec
    from paceline.runs import PoolRun, Run, train, train_pool
    from paceline.topologies.multitask import PoolSpec
    from paceline.topologies.parallel import Job

__version__ = "0.2.0"

_HOMES = {
    "AdaptiveDabAllocation": "paceline.allocation",
    "AggregationSpec": "paceline.learning.averaging",
    "DabAllocation": "paceline.allocation",
    "DataSpec": "paceline.learning.datasets",
    "DeviceState": "paceline.devices.states",
    "EqualAllocation": "paceline.allocation",
    "Job": "paceline.topologies.parallel",
    "LocalDevice": "paceline.fleets.local",
    "LocalFleet": "paceline.fleets.local",
    "MedAllocation": "paceline.allocation",
    "MmttAllocation": "paceline.allocation",
    "ModelSpec": "paceline.learning.models",
    "OptimizerSpec": "paceline.learning.tasks",
    "PoolRun": "paceline.runs",
    "PoolSpec": "paceline.topologies.multitask",
    "Run": "paceline.runs",
    "TestbedDevice": "paceline.fleets.testbed",
    "TestbedFleet": "paceline.fleets.testbed",
    "VirtualDevice": "paceline.fleets.modelled",
    "VirtualFleet": "paceline.fleets.virtual",
    "train": "paceline.runs",
    "train_pool": "paceline.runs",
}

__all__ = [
    "AdaptiveDabAllocation",
    "AggregationSpec",
    "DabAllocation",
    "DataSpec",
    "DeviceState",
    "EqualAllocation",
    "Job",
    "LocalDevice",
    "LocalFleet",
    "MedAllocation",
    "MmttAllocation",
    "ModelSpec",
    "OptimizerSpec",
    "PoolRun",
    "PoolSpec",
    "Run",
    "TestbedDevice",
    "TestbedFleet",
    "VirtualDevice",
    "VirtualFleet",
    "__version__",
    "train",
    "train_pool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
