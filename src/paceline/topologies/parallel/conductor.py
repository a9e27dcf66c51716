"""What orchestrators have in common for those who run them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class Conductor(ABC):
    """Whoever runs a job, or several, for others to take part in.

    Attributes:
        calls: the methods that others may call.
    """

    calls: ClassVar[frozenset[str]]

    @abstractmethod
    async def run(self) -> None:
        """Play all rounds; returns when the last one is over. Learners must be able to call from the start."""

    @abstractmethod
    async def farewell(self) -> None:
        """Wait, but not long, until all learners have heard that the run is over."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the run started."""
