"""What trunk and sources send each other, and the service that the trunk offers.

Sources call, so that they may be behind NAT. All nodes of a job go through the same sync points in the same order, the
schedule of an epoch: at each of them, sources send tensors, and the trunk replies to each when all have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
import torch
from msgspec import Meta

from paceline.learning.quantisation import Bits
from paceline.learning.sources import ReadOptions
from paceline.learning.training_spec import TrainingSpec
from paceline.learning.views import ViewSpec
from paceline.topologies.access import Proof
from paceline.topologies.split.jobs import Depth, Scheme

CALL_SECONDS = 300.0
"""Timeout of a call: longer than the trunk holds any back, and than a large model takes on a slow link."""

MAX_CUTS = 1024
MAX_ECHO_BYTES = 1 << 24

Tensors: TypeAlias = dict[str, torch.Tensor]


class SyncPoint(NamedTuple):
    """A point of an epoch at which all sources send something and the trunk replies.

    Attributes:
        phase: ``step``: a minibatch is trained; ``test``: some test samples are judged; ``images``: samples are handed
            over; ``average``: layers are averaged; ``backup``: the trunk takes a copy of the branches.
        number: counts within the phase, from 0.
    """

    phase: Literal["step", "test", "images", "average", "backup"]
    number: int


class SplitTerms(msgspec.Struct, frozen=True, kw_only=True):
    """A split job as a source needs to know it.

    Attributes:
        cuts: where the model may be cut; one, unless sources have to measure which is best.
        data: the dataset that all have, by name; empty if sources must have it stored.
        reading: how they read what they have stored.
        layers: names of the layers that are averaged.
        epochs: as in the job, like `depth`, `bits`, `backup_epochs` and `test_epochs`.
        first_epoch: 1, or that at which an interrupted run goes on.
    """

    training: TrainingSpec
    scheme: Scheme
    cuts: Annotated[tuple[str, ...], Meta(max_length=MAX_CUTS)]
    epochs: int
    num_samples: int
    num_test_samples: int
    depth: Depth
    bits: Bits
    backup_epochs: int
    test_epochs: int
    data: str
    reading: ReadOptions = ReadOptions()
    view: ViewSpec
    layers: tuple[str, ...] = ()
    first_epoch: int = 1


class SourceWelcome(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a source that joins.

    Attributes:
        session: what it shows in every later call.
        number: its number among the sources, from 1.
    """

    session: str
    number: int
    terms: SplitTerms


class CutCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a cut would cost a source for each minibatch, in seconds, as it measured."""

    forward_seconds: float
    backward_seconds: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a source measured of itself.

    Attributes:
        cuts: costs by cut.
        up_bytes_per_second: rate to the trunk; likewise `down_bytes_per_second` from there.
        latency_seconds: latency of a call, both ways together.
    """

    cuts: Annotated[dict[str, CutCost], Meta(max_length=MAX_CUTS)]
    up_bytes_per_second: float
    down_bytes_per_second: float
    latency_seconds: float


class EpochTicket(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a source that is ready to go on.

    Attributes:
        status: ``open``: go on there; ``wait``: ask again; ``over``: there is no further epoch.
        epoch: the epoch that is open.
        index: the sync point of its schedule to go on with.
        cut: where the model is cut.
        parameters: parameters to go on from, as vectors, with what its optimizer remembered; none if the source's own
            are right, or its initial ones.
        reason: why it is over.
    """

    status: Literal["open", "wait", "over"]
    epoch: int = 0
    index: int = 0
    cut: str = ""
    parameters: dict[str, torch.Tensor] = {}
    reason: str = ""


class SyncReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a source gets back at a sync point.

    Attributes:
        status: ``ready``; ``wait``: it is not there yet, ask again and send None; ``late``: the others went on without
            this source, ask for a ticket.
    """

    status: Literal["ready", "wait", "late"]
    tensors: dict[str, torch.Tensor] = {}


class TrunkService(ABC):
    """What sources call. Each method but `join` raises `LookupError` for a session that is not known (any more)."""

    noun: ClassVar[str] = "the trunk of a split job"

    @abstractmethod
    async def join(self, source: str, version: str, proof: Proof | None = None) -> SourceWelcome:
        """Take part; a device that joins under its name again takes its own place.

        Raises `ValueError` with a reason for a name or version that cannot take part, a name of another device, or if
        no further source can.

        Args:
            proof: shows that it is the device to which the name belongs.
        """

    @abstractmethod
    async def echo(self, session: str, data: bytes, num_bytes: int) -> bytes:
        """Take bytes and return so many, so that a source can time its link."""

    @abstractmethod
    async def declare(self, session: str, costs: Costs) -> None:
        """Report what was measured, where the trunk decides on a cut by it."""

    @abstractmethod
    async def next_epoch(self, session: str, after: int) -> EpochTicket:
        """Wait for an epoch later than `after` that is open; answers ``wait`` when that takes long."""

    @abstractmethod
    async def sync(self, session: str, epoch: int, index: int, tensors: dict[str, torch.Tensor] | None) -> SyncReply:
        """Send what a sync point is about, and wait for the reply; it is the same if asked again.

        Raises `ValueError` with a reason for what does not belong there.
        """

    @abstractmethod
    async def leave(self, session: str) -> None:
        """Take no further part."""
