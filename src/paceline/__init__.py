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
    from paceline.fleets.virtual_nodes import VirtualNodes
    from paceline.fleets.virtual_peers import VirtualPeers
    from paceline.learning.averaging import AggregationSpec
    from paceline.learning.datasets import DataSpec
    from paceline.learning.junction import JunctionSpec
    from paceline.learning.models import ModelSpec
    from paceline.learning.partitions import PartitionSpec
    from paceline.learning.points import PointsSpec
    from paceline.learning.tasks import OptimizerSpec
    from paceline.learning.views import ViewSpec
    from paceline.runs import GossipRun, PoolRun, Run, SplitRun, train, train_gossip, train_pool, train_split
    from paceline.topologies.gossip import GossipJob
    from paceline.topologies.multitask import PoolSpec
    from paceline.topologies.parallel import Job
    from paceline.topologies.split import AveragingSpec, SplitJob

__version__ = "0.2.0"

_HOMES = {
    "AdaptiveDabAllocation": "paceline.allocation",
    "AggregationSpec": "paceline.learning.averaging",
    "AllDataAllocation": "paceline.allocation",
    "AveragingSpec": "paceline.topologies.split",
    "DabAllocation": "paceline.allocation",
    "DataSpec": "paceline.learning.datasets",
    "DeviceState": "paceline.devices.states",
    "EdgeGossipAllocation": "paceline.allocation",
    "EqualAllocation": "paceline.allocation",
    "GossipJob": "paceline.topologies.gossip",
    "GossipRun": "paceline.runs",
    "Job": "paceline.topologies.parallel",
    "JunctionSpec": "paceline.learning.junction",
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
    "SplitJob": "paceline.topologies.split",
    "SplitRun": "paceline.runs",
    "TestbedDevice": "paceline.fleets.testbed",
    "TestbedFleet": "paceline.fleets.testbed",
    "ViewSpec": "paceline.learning.views",
    "VirtualDevice": "paceline.fleets.modelled",
    "VirtualFleet": "paceline.fleets.virtual",
    "VirtualNodes": "paceline.fleets.virtual_nodes",
    "VirtualPeers": "paceline.fleets.virtual_peers",
    "train": "paceline.runs",
    "train_gossip": "paceline.runs",
    "train_pool": "paceline.runs",
    "train_split": "paceline.runs",
}

__all__ = [
    "AdaptiveDabAllocation",
    "AggregationSpec",
    "AllDataAllocation",
    "AveragingSpec",
    "DabAllocation",
    "DataSpec",
    "DeviceState",
    "EdgeGossipAllocation",
    "EqualAllocation",
    "GossipJob",
    "GossipRun",
    "Job",
    "JunctionSpec",
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
    "SplitJob",
    "SplitRun",
    "TestbedDevice",
    "TestbedFleet",
    "ViewSpec",
    "VirtualDevice",
    "VirtualFleet",
    "VirtualNodes",
    "VirtualPeers",
    "__version__",
    "train",
    "train_gossip",
    "train_pool",
    "train_split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
