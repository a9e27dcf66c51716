"""Paceline trains PyTorch models on fleets of unequal edge devices, all done by the deadline.

The names below are loaded when they are first used, so that what needs no PyTorch starts without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.allocation import (
        AdaptiveDabAllocation,
        AllDataAllocation,
        DabAllocation,
        EdgeGossipAllocation,
        EqualAllocation,
        MedAllocation,
        MmttAllocation,
    )
    from paceline.devices.energy import PowerModel
    from paceline.devices.states import DeviceState
    from paceline.fleets.local import LocalDevice, LocalFleet
    from paceline.fleets.local_peers import LocalPeers
    from paceline.fleets.modelled import VirtualDevice
    from paceline.fleets.testbed import TestbedDevice, TestbedFleet
    from paceline.fleets.virtual import VirtualFleet
    from paceline.fleets.virtual_peers import VirtualPeers
    from paceline.learning.averaging import AggregationSpec
    from paceline.learning.datasets import DataSpec
    from paceline.learning.models import ModelSpec
    from paceline.learning.partitions import PartitionSpec
    from paceline.learning.points import PointsSpec
    from paceline.learning.tasks import OptimizerSpec
    from paceline.runs import GossipRun, PoolRun, Run, train, train_gossip, train_pool
    from paceline.topologies.gossip import GossipJob
    from paceline.topologies.multitask import PoolSpec
    from paceline.topologies.parallel import Job

__version__ = "0.2.0"

_HOMES = {
    "AdaptiveDabAllocation": "paceline.allocation",
    "AggregationSpec": "paceline.learning.averaging",
    "AllDataAllocation": "paceline.allocation",
    "DabAllocation": "paceline.allocation",
    "DataSpec": "paceline.learning.datasets",
    "DeviceState": "paceline.devices.states",
    "EdgeGossipAllocation": "paceline.allocation",
    "EqualAllocation": "paceline.allocation",
    "GossipJob": "paceline.topologies.gossip",
    "GossipRun": "paceline.runs",
    "Job": "paceline.topologies.parallel",
    "LocalDevice": "paceline.fleets.local",
    "LocalFleet": "paceline.fleets.local",
    "LocalPeers": "paceline.fleets.local_peers",
    "MedAllocation": "paceline.allocation",
    "MmttAllocation": "paceline.allocation",
    "ModelSpec": "paceline.learning.models",
    "OptimizerSpec": "paceline.learning.tasks",
    "PartitionSpec": "paceline.learning.partitions",
    "PointsSpec": "paceline.learning.points",
    "PoolRun": "paceline.runs",
    "PoolSpec": "paceline.topologies.multitask",
    "PowerModel": "paceline.devices.energy",
    "Run": "paceline.runs",
    "TestbedDevice": "paceline.fleets.testbed",
    "TestbedFleet": "paceline.fleets.testbed",
    "VirtualDevice": "paceline.fleets.modelled",
    "VirtualFleet": "paceline.fleets.virtual",
    "VirtualPeers": "paceline.fleets.virtual_peers",
    "train": "paceline.runs",
    "train_gossip": "paceline.runs",
    "train_pool": "paceline.runs",
}

__all__ = [
    "AdaptiveDabAllocation",
    "AggregationSpec",
    "AllDataAllocation",
    "DabAllocation",
    "DataSpec",
    "DeviceState",
    "EdgeGossipAllocation",
    "EqualAllocation",
    "GossipJob",
    "GossipRun",
    "Job",
    "LocalDevice",
    "LocalFleet",
    "LocalPeers",
    "MedAllocation",
    "MmttAllocation",
    "ModelSpec",
    "OptimizerSpec",
    "PartitionSpec",
    "PointsSpec",
    "PoolRun",
    "PoolSpec",
    "PowerModel",
    "Run",
    "TestbedDevice",
    "TestbedFleet",
    "VirtualDevice",
    "VirtualFleet",
    "VirtualPeers",
    "__version__",
    "train",
    "train_gossip",
    "train_pool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
