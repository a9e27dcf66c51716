"""Trackers by name: built in, of installed packages, or the user's own by import path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline import plugins
from paceline.errors import ConfigError
from paceline.plugins import Family
from paceline.report.trackers.base import Tracker
from paceline.report.trackers.json_lines import JsonTracker
from paceline.report.trackers.mlflow import MlflowTracker
from paceline.report.trackers.tensorboard import TensorBoardTracker
from paceline.report.trackers.wandb import WandbTracker

TRACKERS: Family[type[Tracker]] = Family(
    "tracker",
    {"json": JsonTracker, "mlflow": MlflowTracker, "tensorboard": TensorBoardTracker, "wandb": WandbTracker},
    "paceline.trackers",
)
"""Trackers by name; installed packages add theirs."""

PRINTING = "json"
"""The tracker that prints on standard output, where nothing else should then."""


def find_trackers(given: Sequence[str | type[Tracker]]) -> Mapping[str, type[Tracker]]:
    """Return trackers by the name of their folder; raises `ConfigError` for one that is unknown, or cannot be made.

    Args:
        given: names, import paths, which are imported here, or classes.
    """
    found: dict[str, type[Tracker]] = {}
    for one in given:
        name = one if isinstance(one, str) else getattr(one, "__name__", repr(one))
        try:
            if isinstance(one, str):
                TRACKERS.check(one)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        kind = TRACKERS.find(one) if isinstance(one, str) else one
        if not (isinstance(kind, type) and issubclass(kind, Tracker)):
            raise ConfigError(f"tracker {name!r} is no class derived from {Tracker.__module__}.Tracker")
        plugins.guarded(f"tracker {name!r}", "making it", kind)  # a package may be missing
        found[name.rpartition(":")[2]] = kind
    return found
