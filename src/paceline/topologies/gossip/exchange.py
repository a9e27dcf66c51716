"""How peers bring together what they learn: what mixing and push-sum have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from paceline.errors import BadReply, PacelineError
from paceline.events import Phase
from paceline.learning.divergence import diverged
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trained, Trainer, TrainOptions
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.calls import Delivery, Gone, PeerCalls
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.mass import MAX_MASS, MassEntry, MassState
from paceline.topologies.gossip.membership import Membership, PeerRecord
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.gossip.snapshots import Copies


@dataclass
class Traffic:
    """Bytes of models that a peer sent and received."""

    sent: int = 0
    received: int = 0


async def _nothing_to_sync() -> None:
    return


@dataclass(frozen=True, kw_only=True)
class ExchangeContext:
    """What an exchange needs of its peer.

    Attributes:
        start: the initial parameters.
        turn_to: reports the phase that the peer turns to.
        journal: receives each change of its mass, before anybody else learns of it.
        sync_journal: waits until these are on the disk.
    """

    job: GossipJob
    name: str
    trainer: Trainer
    membership: Membership
    calls: PeerCalls
    start: Vectors
    turn_to: Callable[[Phase], None] = lambda phase: None
    journal: Callable[[MassEntry], None] = lambda entry: None
    sync_journal: Callable[[], Awaitable[None]] = _nothing_to_sync
    traffic: Traffic = field(default_factory=Traffic)

    async def train(self, epoch: int, parameters: Vectors, shard: Shard) -> Trained:
        """Train the samples in their order; raises `DivergedError` instead of a model that others could not use."""
        # As they were ranked, with one optimizer for all epochs.
        options = TrainOptions(round=epoch, is_shuffled=False, keeps_optimizer=True)
        trained = await self.trainer.train(parameters, [shard], options)
        shown_by = self._validator.why_diverged(trained.parameters)
        if shown_by is not None:
            raise diverged(f"epoch {epoch} on {self.name}", f"of its parameters, {shown_by}")
        return trained

    @functools.cached_property
    def _validator(self) -> UpdateValidator:
        return UpdateValidator(self.start)


@dataclass
class EpochResult:
    """What came of an epoch.

    Attributes:
        num_exchanges: models of others that were taken in.
        heard: whose they are.
        distance: how far exchange moved the model, over how far training did.
    """

    parameters: Vectors
    num_samples: int = 0
    train_seconds: float = 0.0
    exchange_seconds: float = 0.0
    num_exchanges: int = 0
    heard: tuple[str, ...] = ()
    distance: float = 0.0


class Exchange(ABC):
    """Trains the epochs of a peer, and takes in what others have learned."""

    def __init__(self, context: ExchangeContext) -> None:
        self._context = context

    @property
    def mass(self) -> float:
        """Push-sum weight of this peer's model, as a ratio of what a peer starts with; 0 where all weigh the same."""
        return 0.0

    def begin(self, mass: int) -> None:
        """Begin with a model of this mass, where models have one."""

    def mass_state(self) -> MassState | None:
        """Return the mass as it is, to go on from; None where models have none."""
        return None

    def restore(self, mass: MassState | None) -> None:
        """Go on with the mass as it was."""

    @abstractmethod
    async def train(self, epoch: int, parameters: Vectors, shard: Shard) -> EpochResult:
        """Train the samples in their order, and exchange."""

    @abstractmethod
    async def finish(self, parameters: Vectors) -> Vectors:
        """Return the model after the last epoch, with all that was still under way taken in."""

    @abstractmethod
    async def fetch_model(self, epoch: int, base: int, wait_seconds: float) -> ModelReply:
        """See `PeerService`."""

    @abstractmethod
    async def push(self, transfer: str, mass: int, parameters: Vectors) -> bool:
        """See `PeerService`."""

    @abstractmethod
    def share(self, newcomer: PeerRecord, transfer: str) -> int:
        """Return the mass that a newcomer is given, once in its life."""

    async def aclose(self) -> None:
        """Let go of what is under way."""


async def fetch_newest(name: str, context: ExchangeContext, *, with_share: bool = True) -> ModelReply | None:
    """Fetch the newest model of a peer, for a newcomer with a share of its mass; None if it is gone or malformed.

    Raises `PacelineError` if it may have given a share that did not arrive: a second one would not make up for it.
    """
    delivery = Delivery()
    transfer = f"{context.name}/{context.membership.me.life}/adopted" if with_share else ""
    try:
        reply: ModelReply = await context.calls.call(
            name, lambda peer: delivery.attempt(peer.fetch_newest.coro(context.name, transfer))
        )
        if not 0 <= reply.mass <= MAX_MASS or reply.epoch > context.job.epochs:
            raise BadReply(f"{name} sent a model whose mass is out of range, or of epoch {reply.epoch}")
        Copies(context.start).take(name, reply)
    except (Gone, BadReply) as error:
        if with_share and delivery.is_uncertain and context.job.exchange == "push-sum":
            raise PacelineError(f"{error}; join again, by another peer") from error
        return None
    return reply
