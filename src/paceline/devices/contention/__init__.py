"""Contention: what other processes use of a device, and how much slower that makes its training.

After Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms" (2021), §3.3.
"""

from paceline.devices.contention.monitor import ContentionMonitor
from paceline.devices.contention.predictors import (
    ContentionPredictor,
    Predictor,
    RecentPredictor,
    platform_throughput,
)
from paceline.devices.contention.profiles import ContentionProfile, load_profile, save_profile
from paceline.devices.contention.regression import SlowdownModel
from paceline.devices.contention.usage import Usage

__all__ = [
    "ContentionMonitor",
    "ContentionPredictor",
    "ContentionProfile",
    "Predictor",
    "RecentPredictor",
    "SlowdownModel",
    "Usage",
    "load_profile",
    "platform_throughput",
    "save_profile",
]
