"""What every fleet does: run a plan with its devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from paceline.errors import ConfigError
from paceline.fleets.devices import EmulatedDevice
from paceline.topologies.base import Environment, Outcome, Plan

HOST = "orchestrator"
"""Name of the host among the devices."""


class Fleet(ABC):
    """Devices, and where they run.

    Attributes:
        devices: those that take part; None where they join as they like.
    """

    devices: Sequence[EmulatedDevice] | None = None

    def check(self, plan: Plan[Any]) -> None:
        """Raise `ConfigError` if there are fewer devices than a plan begins with."""
        if self.devices is not None and len(self.devices) < plan.min_devices:
            raise ConfigError(f"the fleet has {len(self.devices)} devices; the job begins with {plan.min_devices}")

    @abstractmethod
    def run(self, plan: Plan[Any], env: Environment, started_at: float = 0.0) -> Outcome:
        """Carry out a plan; blocks until the run is over.

        Leaves no process, thread or port behind, however it ends.

        Args:
            env: keeps what happens and what is learned; the fleet adds its clock and its machines.
            started_at: time of the first event, later than 0 for a run that goes on.
        """
