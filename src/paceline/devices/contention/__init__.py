"""Contention: other processes' use of a device, and how much it slows down training.

After Han et al., "Accelerating Gossip-Based Deep Learning in Heterogeneous Edge Computing Platforms" (2021), §3.3.
"""

from paceline.devices.contention.monitor import ContentionMonitor
from paceline.devices.contention.predictors import ContentionPredictor, Predictor, RecentPredictor
from paceline.devices.contention.profiles import ContentionProfile, load_profile, save_profile
from paceline.devices.contention.regression import SlowdownModel
from paceline.devices.contention.usage import ForeignUsage
