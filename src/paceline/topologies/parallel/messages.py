"""What orchestrator and learners say to each other, and the service that the orchestrator offers.

In a job whose policy is decided by the learner, these are all the bytes that leave a device: a name, requests for
shards, trained parameters and how many samples they were trained on. Nothing is told of the hardware; only policies
that need profiles, such as csa, have them declared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import msgspec
import numpy as np
import torch

from paceline.allocation import Allocation, Terms
from paceline.devices.profiles import Profile
from paceline.learning.tasks import Task

MAX_NAME_LENGTH = 64
MAX_SHARDS = 1 << 20
"""That a learner may take in one round."""
MAX_SERVED_SHARDS = 1 << 14
"""That it is sent in one round: a message holds 65536 arrays at most, and two are a shard."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is offered to a learner that joins.

    Attributes:
        session: what the learner shows in every later call.
        policy: name and fields of the allocation policy.
        placement: whether shards come from the orchestrator or from the device's own data.
        benchmark_shards: how many shards the subset benchmark uses.
    """

    session: str
    task: Task
    terms: Terms
    policy: dict[str, Any]
    placement: Literal["served", "local"]
    benchmark_shards: int


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a learner that is ready for a round.

    Attributes:
        status: ``open``: take part now; ``wait``: ask again; ``over``: there is no further round.
        seconds_left: until the round's deadline.
        allocation: what the orchestrator has allocated, for policies that it decides.
        reason: why to wait, or why it is over.
    """

    status: Literal["open", "wait", "over"]
    round: int = 0
    seconds_left: float = 0.0
    allocation: Allocation | None = None
    reason: str = ""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The newest parameters, and the shards to train them on.

    Attributes:
        parameters: as vectors; see `paceline.learning.vectors`.
        seconds_left: until the round's deadline, when this was sent.
    """

    parameters: dict[str, torch.Tensor]
    shards: list[tuple[np.ndarray, np.ndarray]]
    seconds_left: float = 0.0


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an update is used, and if not, why."""

    is_accepted: bool
    reason: str = ""


class OrchestratorService(ABC):
    """What learners call. Each method but `join` raises `LookupError` for a session that is not known (any more)."""

    @abstractmethod
    async def join(self, learner: str, version: str) -> Offer:
        """Take part; who joins under a name that is there already takes its place.

        Raises `ValueError` with a reason for a name or version that cannot take part.
        """

    @abstractmethod
    async def declare(self, session: str, max_shards: int | None, profile: Profile | None) -> None:
        """Tell what the orchestrator needs to decide allocations; not called if the learner decides.

        The profile is None unless the policy needs it.
        """

    @abstractmethod
    async def sample(self, session: str, num_shards: int, with_parameters: bool) -> Work:
        """Something to measure with: shards drawn at random, and the parameters if they are wanted."""

    @abstractmethod
    async def discard(self, session: str, data: bytes) -> None:
        """Take bytes and forget them, so that a learner can time its uploads."""

    @abstractmethod
    async def next_round(self, session: str, after: int) -> Ticket:
        """Wait for a round later than `after` that is open; answers ``wait`` when that takes long."""

    @abstractmethod
    async def take(self, session: str, round: int, num_shards: int) -> Work:
        """The newest parameters and so many shards; the same ones if asked again. Raises `ValueError` if too late.

        Where data stays on the devices, `num_shards` tells how many of its own shards the learner will train.
        """

    @abstractmethod
    async def update(self, session: str, round: int, parameters: dict[str, torch.Tensor], num_samples: int) -> Receipt:
        """Hand in what was trained, and on how many samples, counted once per pass."""

    @abstractmethod
    async def leave(self, session: str) -> None:
        """Take no further part."""
