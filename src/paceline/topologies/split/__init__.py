"""One model over many devices: sources run its first layers on their views, a trunk merges them and runs the rest."""

from paceline.topologies.split.hosting import reach_trunk
from paceline.topologies.split.jobs import AveragingSpec, SplitJob
from paceline.topologies.split.messages import TrunkService
from paceline.topologies.split.plans import SplitPlan, make_plan
from paceline.topologies.split.samples import Samples, load_samples, view_of
from paceline.topologies.split.source import Source, SourceOptions
from paceline.topologies.split.trunk import Trunk

__all__ = [
    "AveragingSpec",
    "Samples",
    "Source",
    "SourceOptions",
    "SplitJob",
    "SplitPlan",
    "Trunk",
    "TrunkService",
    "load_samples",
    "make_plan",
    "reach_trunk",
    "view_of",
]
