"""How peers bring together what they learn; here by mixing after each epoch."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.errors import BadReply
from paceline.events import Phase
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trainer
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.board import Board, Copies, distance, mixed
from paceline.topologies.gossip.contacts import PAUSE_SECONDS, Contacts, Gone
from paceline.topologies.gossip.graphs import GraphSpec, Mixing
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.members import Member, Membership
from paceline.topologies.gossip.messages import Shown


@dataclass
class Traffic:
    """Bytes of models that a peer sent and received."""

    sent: int = 0
    received: int = 0


@dataclass(frozen=True, kw_only=True)
class Ties:
    """What an exchange needs of its peer."""

    job: GossipJob
    name: str
    trainer: Trainer
    membership: Membership
    contacts: Contacts
    start: Vectors
    turn_to: Callable[[Phase], None] = lambda phase: None
    traffic: Traffic = field(default_factory=Traffic)


@dataclass
class Outcome:
    """What came of an epoch.

    Attributes:
        num_exchanges: models of others that were taken in.
        distance: how far exchange moved the model, over how far training did.
    """

    parameters: Vectors
    num_samples: int = 0
    train_seconds: float = 0.0
    exchange_seconds: float = 0.0
    num_exchanges: int = 0
    distance: float = 0.0


class Exchange(ABC):
    """Trains the epochs of a peer, and takes in what others have learned."""

    def __init__(self, ties: Ties) -> None:
        self._ties = ties

    @property
    def mass(self) -> float:
        """Of this peer's model, as a ratio of what a peer starts with; 0 where all weigh the same."""
        return 0.0

    def begin(self, mass: int) -> None:
        """The model to begin with has this mass, where models have one."""

    @abstractmethod
    async def train(self, epoch: int, parameters: Vectors, shard: Shard) -> Outcome:
        """Train the samples in their order, and exchange."""

    @abstractmethod
    async def settle(self, parameters: Vectors) -> Vectors:
        """The model after the last epoch, with all that was still under way taken in."""

    @abstractmethod
    async def show(self, epoch: int, base: int, wait_seconds: float) -> Shown:
        """See `PeerService`."""

    @abstractmethod
    async def push(self, transfer: str, mass: int, parameters: Vectors) -> bool:
        """See `PeerService`."""

    @abstractmethod
    def share(self, newcomer: Member, transfer: str) -> int:
        """The mass that a newcomer is given, once in its life."""

    async def aclose(self) -> None:
        """Let go of what is under way."""


class MixingExchange(Exchange):
    """After an epoch, takes the models that the neighbours show, and mixes them by the weights of the graph."""

    def __init__(self, ties: Ties) -> None:
        super().__init__(ties)
        self._board = Board(ties.job.compression)
        self._copies = Copies(ties.start)
        self._pending: asyncio.Task[tuple[Vectors, int, dict[str, Vectors], dict[str, float]]] | None = None

    async def train(self, epoch: int, parameters: Vectors, shard: Shard) -> Outcome:
        trained = await self._ties.trainer.train(parameters, [shard], is_shuffled=False, keeps_optimizer=True)
        outcome = Outcome(trained.parameters, trained.num_samples, trained.seconds)
        self._ties.turn_to("exchange")
        loop = asyncio.get_running_loop()
        start = loop.time()
        if self._ties.job.overlaps:
            await self._take_in(outcome, parameters)  # of the epoch before; after that, others see what came of it
            self._look_around(epoch, outcome.parameters)
        else:
            self._look_around(epoch, outcome.parameters)
            await self._take_in(outcome, parameters)
        outcome.exchange_seconds = loop.time() - start
        return outcome

    async def settle(self, parameters: Vectors) -> Vectors:
        outcome = Outcome(parameters)
        await self._take_in(outcome, parameters)
        return outcome.parameters

    async def show(self, epoch: int, base: int, wait_seconds: float) -> Shown:
        return await self._board.show(epoch, base, wait_seconds)

    async def push(self, transfer: str, mass: int, parameters: Vectors) -> bool:
        raise ValueError("this job mixes models after each epoch; there are no pushes in it")

    def share(self, newcomer: Member, transfer: str) -> int:
        return 0

    async def aclose(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.gather(self._pending, return_exceptions=True)

    def _look_around(self, epoch: int, parameters: Vectors) -> None:
        own = self._board.put(epoch, parameters)
        self._pending = asyncio.ensure_future(self._gather(epoch, own))

    async def _take_in(self, outcome: Outcome, before: Vectors) -> None:
        if self._pending is None:
            return
        own, num_bytes, others, weights = await self._pending
        if self._ties.job.overlaps:
            # What is added an epoch late may swing up: with all eigenvalues of the weights at least 0, it cannot.
            weights = {name: weight / 2 for name, weight in weights.items()}
        self._pending = None
        self._ties.traffic.received += num_bytes
        if self._ties.job.compression == "none":  # nothing will be added to the copies, and they take memory
            self._copies.keep_only(())
        after = mixed(outcome.parameters, own, others, weights)
        outcome.distance = distance(after, outcome.parameters) / max(distance(outcome.parameters, before), 1e-12)
        outcome.parameters, outcome.num_exchanges = after, len(others)

    async def _gather(self, epoch: int, own: Vectors) -> tuple[Vectors, int, dict[str, Vectors], dict[str, float]]:
        """The models of the neighbours after this epoch, of those that are still there."""
        living = self._ties.membership.living()
        taking_part = [member.name for member in living if member.first_epoch <= epoch]
        names = tuple(sorted({*taking_part, self._ties.name}))
        weights = _mixing(names, self._ties.job.graph_spec).weights_of(self._ties.name)
        del weights[self._ties.name]
        self._copies.keep_only(weights)
        found = await asyncio.gather(*(self._ask(name, epoch) for name in sorted(weights)))
        others = {name: model for name, model, _ in found if model is not None}
        return own, sum(num_bytes for *_, num_bytes in found), others, weights

    async def _ask(self, name: str, epoch: int) -> tuple[str, Vectors | None, int]:
        num_bytes, base = 0, self._copies.epoch_of(name)
        while True:
            try:
                shown: Shown = await self._ties.contacts.call(
                    name,
                    lambda peer: peer.show.coro(epoch, base),  # noqa: B023  (awaited in this turn)
                )
            except Gone:
                return name, None, num_bytes
            if shown.status == "wait":
                await asyncio.sleep(PAUSE_SECONDS)  # it may answer so at once, again and again
                continue
            num_bytes += size_of(shown)
            try:
                if not epoch <= shown.epoch <= self._ties.job.epochs:
                    raise BadReply(f"{name} showed a model of epoch {shown.epoch}, not of {epoch}")
                return name, self._copies.take(name, shown), num_bytes
            except BadReply as error:
                if not base:
                    self._ties.membership.bury(name, str(error))
                    return name, None, num_bytes
                base = 0  # a whole model will do


@functools.lru_cache(maxsize=8)
def _mixing(names: tuple[str, ...], spec: GraphSpec) -> Mixing:
    """The weights of all, which stay the same as long as nobody comes or goes."""
    return Mixing.over(names, spec)


def size_of(shown: Shown) -> int:
    """The bytes of a model as it is shown."""
    return sum(vector.nbytes for vectors in (shown.parameters, shown.scales) for vector in vectors.values())
