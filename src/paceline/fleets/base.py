"""What every fleet does: run a plan with its devices."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from paceline import plugins
from paceline.errors import ConfigError
from paceline.fleets.devices import EmulatedDevice
from paceline.topologies.base import Environment, Outcome, Plan

HOST = "host-machine"
"""Name of the host on the network of the devices."""


class Fleet(ABC):
    """Devices, and where they run.

    Attributes:
        devices: those that take part; None where they join as they like.
        is_in_this_process: whether all devices are, so that they know what is defined in a notebook.
    """

    devices: Sequence[EmulatedDevice] | None = None
    is_in_this_process: ClassVar[bool] = False

    def check(self, plan: Plan[Any]) -> None:
        """Raise `ConfigError` if devices are fewer than a plan needs to begin, or cannot import what it names."""
        if not self.is_in_this_process:
            for path in plan.import_paths:
                plugins.check_importable(path)
        num_devices, least = math.inf if self.devices is None else len(self.devices), plan.min_devices
        if num_devices < least:
            devices = "1 device" if num_devices == 1 else f"{num_devices} devices"
            raise ConfigError(f"the fleet has {devices}; the job needs {least} to begin")

    def described(self) -> dict[str, Any] | None:
        """Return what it takes to make such a fleet again, see `fleet_of`; None if nobody here decides on devices."""
        return None

    @abstractmethod
    def run(self, plan: Plan[Any], env: Environment, started_at: float = 0.0) -> Outcome:
        """Carry out a plan; blocks until the run is over.

        Leaves no process, thread or port behind, however it ends.

        Args:
            env: keeps what happens and what is learned; the fleet adds its clock and its machines.
            started_at: time of the first event, later than 0 for a run that goes on.
        """
