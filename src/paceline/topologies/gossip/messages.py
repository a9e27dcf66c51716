"""Messages between peers, and the service that each of them offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from msgspec import Meta

from paceline.topologies.gossip.membership import MAX_MEMBERS, Count, EncodedRecords, Name
from paceline.topologies.gossip.relayed_calls import Number, Poll, RelayedCall, RelayedReply, TakenCall

RELAY_PATH = "/relay"
"""Path of a peer's calls as a relay."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer knows of all.

    Attributes:
        job: fingerprint of the job that it trains.
        base: digest of what of the model does not travel; empty if all does.
        version: version of Paceline.
        learner: the peer whose view this is.
        members: records of all, by `Membership.encoded`.
        missed_caller: in an answer, whether the peer that asked was taken for gone until then, where it is called now.
    """

    job: str
    base: str
    version: str
    learner: Name
    members: EncodedRecords
    missed_caller: bool = False


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a peer sends to another.

    Attributes:
        status: ``ready``, or ``wait``: it is not there yet, ask again.
        epoch: the epoch after which it is.
        parameters: vectors; see `paceline.learning.vectors`, and, where they are a change,
            `paceline.learning.compression`.
        base: the epoch that the change is counted from; None if this is the whole model.
        mass: push-sum weight that comes with it, where a newcomer is given a share.
        averaged: the peers that it is the average of.
        members: what the peer knows of all, by `Membership.encoded`.
    """

    status: Literal["ready", "wait"]
    epoch: Count = 0
    parameters: dict[str, torch.Tensor] = {}
    base: Count | None = None
    mass: int = 0
    averaged: Annotated[tuple[Name, ...], Meta(max_length=MAX_MEMBERS)] = ()
    members: EncodedRecords = b""

    @property
    def num_bytes(self) -> int:
        """Bytes of the model as it is sent."""
        return sum(vector.nbytes for vector in self.parameters.values())


class PeerService(ABC):
    """What peers call at each other."""

    noun: ClassVar[str] = "a peer of a gossip job"

    @abstractmethod
    async def exchange_views(self, view: View) -> View:
        """Receive what another knows of all, and return what this peer does.

        Raises `ValueError` with a reason if the two cannot train together.
        """

    @abstractmethod
    async def fetch_model(self, epoch: int, base: int) -> ModelReply:
        """Return the model after the local training of an epoch, or of a later one; ``wait`` when that takes long.

        Args:
            base: the epoch of the copy that the caller has, so that a change is enough; 0 if it has none.
        """

    @abstractmethod
    async def push(self, learner: str, transfer: str, mass: int, parameters: dict[str, torch.Tensor]) -> bool:
        """Receive a model and its mass (push-sum); False if too many wait here. A repeated transfer does nothing.

        Raises `ValueError` for what does not fit the model.
        """

    @abstractmethod
    async def fetch_newest(self, learner: str, transfer: str) -> ModelReply:
        """Return the newest model to whoever asks; to a newcomer that names a transfer, with a share of the mass."""

    @abstractmethod
    async def fetch_trained(self) -> ModelReply:
        """Return this peer's model when it has trained all epochs; ``wait`` when that takes long."""

    @abstractmethod
    async def fetch_average(self, learner: str) -> ModelReply:
        """Return the average of the living, from the peer whose turn it is to make it; ``wait`` until it has."""


class RelayService(ABC):
    """What peers that cannot be called, and those that call them, call at a relay."""

    noun: ClassVar[str] = "a peer of a gossip job"

    @abstractmethod
    async def take_call(self, poll: Poll) -> TakenCall | None:
        """Hand the next call to a peer that cannot be called, and polls for it; None if none came for a while.

        Raises `ValueError` if this peer is no relay for it.
        """

    @abstractmethod
    async def answer_call(self, number: Number, reply: RelayedReply) -> bool:
        """Receive such a peer's answer to a call; False if there is no room for it now."""

    @abstractmethod
    async def call_by_relay(self, call: RelayedCall) -> RelayedReply | None:
        """Pass a call on to such a peer, and return its answer; None if it takes none here now."""
