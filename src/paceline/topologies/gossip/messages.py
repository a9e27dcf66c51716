"""What peers say to each other, and the service that each of them offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal, TypeAlias

import msgspec
import torch
from msgspec import Meta

from paceline.topologies.gossip.members import MAX_MEMBERS, Count, Name, Told

_Names: TypeAlias = Annotated[list[Name], Meta(max_length=MAX_MEMBERS)]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer knows of all.

    Attributes:
        job: the fingerprint of what it trains.
        version: of Paceline.
        learner: who tells.
        members: by `Membership.told`.
    """

    job: str
    version: str
    learner: Name
    members: Told


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A model as a peer shows it to others.

    Attributes:
        status: ``ready``, or ``wait``: it is not there yet, ask again.
        epoch: after which it is.
        parameters: as vectors; see `paceline.learning.vectors`. Of type int8 where they tell what changed.
        scales: one vector for each of those in int8.
        base: the epoch that the change is counted from; None if this is the whole model.
        mass: that comes with it, where a newcomer is given a share.
        averaged: the peers that it is the average of.
        members: what the peer knows of all, by `Membership.told`.
    """

    status: Literal["ready", "wait"]
    epoch: Count = 0
    parameters: dict[str, torch.Tensor] = {}
    scales: dict[str, torch.Tensor] = {}
    base: Count | None = None
    mass: int = 0
    averaged: Annotated[tuple[Name, ...], Meta(max_length=MAX_MEMBERS)] = ()
    members: Told = b""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a peer is, for whoever asks.

    Attributes:
        epoch: the last that it has trained, of `epochs`.
        ratio: of its data, that it trains in an epoch.
        accuracy: of its own model on test data, as last evaluated.
        living: peers that take part, as far as it knows.
        gone: peers that are dead, or have left.
        store: where figures are shared; empty if peers tell each other.
    """

    learner: Name
    epoch: Count
    epochs: Count
    ratio: float
    samples_per_second: float
    loss: float | None
    accuracy: float | None
    living: _Names
    gone: _Names
    is_done: bool
    store: str = ""


class PeerService(ABC):
    """What peers call at each other, and anybody may ask."""

    @abstractmethod
    async def meet(self, view: View) -> View:
        """Tell what one knows, and hear what the other does.

        Raises `ValueError` with a reason if the two cannot train together.
        """

    @abstractmethod
    async def show(self, epoch: int, base: int) -> Shown:
        """The model after the local training of an epoch, or of a later one; answers ``wait`` when that takes long.

        Args:
            base: the epoch of the copy that the caller has, so that a change is enough; 0 if it has none.
        """

    @abstractmethod
    async def push(self, learner: str, transfer: str, mass: int, parameters: dict[str, torch.Tensor]) -> bool:
        """Bring a model and its mass (push-sum); False if too many wait here. A repeated transfer does nothing.

        Raises `ValueError` for what does not fit the model.
        """

    @abstractmethod
    async def adopt(self, learner: str, transfer: str) -> Shown:
        """The newest model, for whoever asks; for a newcomer, by a transfer, with a share of the mass in push-sum."""

    @abstractmethod
    async def settled(self) -> Shown:
        """This peer's model when it has trained all epochs; answers ``wait`` when that takes long."""

    @abstractmethod
    async def conclude(self, learner: str) -> Shown:
        """The average of the living, from the peer whose turn it is to make it; answers ``wait`` until it has."""

    @abstractmethod
    async def progress(self) -> Progress:
        """How far this peer is."""
