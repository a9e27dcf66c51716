"""What a pool offers besides what every orchestrator does: jobs can be submitted, and asked after."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import msgspec

from paceline import axon
from paceline.axon.transports import Transport
from paceline.topologies.parallel.messages import OrchestratorService


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job is.

    Attributes:
        status: ``waiting``: nobody trains it yet; ``running``; ``over``.
        num_closed: rounds that are done, of `rounds`.
        num_learners: in its team.
    """

    job: str
    status: Literal["waiting", "running", "over"]
    num_closed: int
    rounds: int
    num_learners: int
    loss: float | None = None
    accuracy: float | None = None


class PoolService(OrchestratorService):
    """What learners and those who have jobs call."""

    @abstractmethod
    async def submit(self, tables: dict[str, Any]) -> str:
        """Have a job trained, told as the tables of a job file; returns its name. Raises `ValueError` with a reason."""

    @abstractmethod
    async def follow(self, job: str) -> JobProgress:
        """How far a job is, once it is over, or when that takes long; raises `LookupError` if there is no such job."""

    @abstractmethod
    async def progress(self) -> list[JobProgress]:
        """How far each job is, in the order in which they came."""


def reach_pool(url: str, *, transport: Transport | None = None, **trust: Any) -> axon.Remote:
    """A pool to call.

    Args:
        trust: as for `axon.connect`: token, fingerprint, ca_file.
    """
    return axon.connect(url, interface=PoolService, transport=transport, timeout_seconds=60, **trust)
