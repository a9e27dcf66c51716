"""What orchestrators have in common for those who run them."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from paceline.topologies.parallel.messages import OrchestratorService


class Conductor(OrchestratorService):
    """An orchestrator with a life: of one job, or of several.

    Attributes:
        calls: the methods that others may call.
    """

    calls: ClassVar[frozenset[str]] = OrchestratorService.__abstractmethods__

    @abstractmethod
    async def run(self) -> None:
        """Play all rounds; returns when the last one is closed. Learners must be able to call from the start."""

    @abstractmethod
    async def farewell(self) -> None:
        """Wait, but not long, until all learners have heard that the run is over."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the run started."""
