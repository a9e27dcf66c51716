"""Mixing: after each epoch, peers fetch the models of their neighbours, and average them with their own."""

from __future__ import annotations

import asyncio
import functools

from paceline.errors import BadReply
from paceline.learning.shards import Shard
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.calls import PAUSE_SECONDS, Gone
from paceline.topologies.gossip.exchange import EpochResult, Exchange, ExchangeContext
from paceline.topologies.gossip.graphs import GraphSpec, Mixing
from paceline.topologies.gossip.membership import PeerRecord
from paceline.topologies.gossip.messages import ModelReply
from paceline.topologies.gossip.snapshots import Copies, Snapshots, distance, mixed


class MixingExchange(Exchange):
    """After an epoch, fetches the models of the neighbours, and mixes them by the weights of the graph."""

    def __init__(self, context: ExchangeContext) -> None:
        super().__init__(context)
        self._snapshots = Snapshots(context.job.compression)
        self._copies = Copies(context.start)
        self._pending: asyncio.Task[tuple[Vectors, int, dict[str, Vectors], dict[str, float]]] | None = None

    async def train(self, epoch: int, parameters: Vectors, shard: Shard) -> EpochResult:
        trained = await self._context.train(epoch, parameters, shard)
        result = EpochResult(trained.parameters, trained.num_samples, trained.seconds)
        self._context.turn_to("exchange")
        loop = asyncio.get_running_loop()
        start = loop.time()
        if self._context.job.overlaps:
            await self._mix(result, parameters)  # of the epoch before; after that, others see what came of it
            self._offer_and_gather(epoch, result.parameters)
        else:
            self._offer_and_gather(epoch, result.parameters)
            await self._mix(result, parameters)
        result.exchange_seconds = loop.time() - start
        return result

    async def finish(self, parameters: Vectors) -> Vectors:
        result = EpochResult(parameters)
        self._snapshots.end()
        await self._mix(result, parameters)
        return result.parameters

    async def fetch_model(self, epoch: int, base: int, wait_seconds: float) -> ModelReply:
        return await self._snapshots.reply(epoch, base, wait_seconds)

    async def push(self, transfer: str, mass: int, parameters: Vectors) -> bool:
        raise ValueError("this job mixes models after each epoch; there are no pushes in it")

    def share(self, newcomer: PeerRecord, transfer: str) -> int:
        return 0

    async def aclose(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.gather(self._pending, return_exceptions=True)

    def _offer_and_gather(self, epoch: int, parameters: Vectors) -> None:
        own = self._snapshots.add(epoch, parameters)
        self._pending = asyncio.ensure_future(self._gather(epoch, own))

    async def _mix(self, result: EpochResult, before: Vectors) -> None:
        if self._pending is None:
            return
        own, num_bytes, others, weights = await self._pending
        if self._context.job.overlaps:
            # What is added an epoch late may swing up: with all eigenvalues of the weights at least 0, it cannot.
            weights = {name: weight / 2 for name, weight in weights.items()}
        self._pending = None
        self._context.traffic.received += num_bytes
        if self._context.job.compression == "none":  # nothing will be added to the copies, and they take memory
            self._copies.keep_only(())
        after = mixed(result.parameters, own, others, weights)
        result.distance = distance(after, result.parameters) / max(distance(result.parameters, before), 1e-12)
        result.parameters, result.num_exchanges, result.heard = after, len(others), tuple(others)

    async def _gather(self, epoch: int, own: Vectors) -> tuple[Vectors, int, dict[str, Vectors], dict[str, float]]:
        """Fetch the models of the neighbours after this epoch, of those that are still there."""
        living = self._context.membership.living()
        taking_part = [
            record.name for record in living if record.first_epoch <= epoch and not _has_stopped(record, epoch)
        ]
        names = tuple(sorted({*taking_part, self._context.name}))
        weights = _mixing(names, self._context.job.graph_spec).weights_of(self._context.name)
        del weights[self._context.name]
        self._copies.keep_only(weights)
        found = await asyncio.gather(*(self._ask(name, epoch) for name in sorted(weights)))
        others = {name: model for name, model, _ in found if model is not None}
        return own, sum(num_bytes for *_, num_bytes in found), others, weights

    async def _ask(self, name: str, epoch: int) -> tuple[str, Vectors | None, int]:
        num_bytes, base = 0, self._copies.epoch_of(name)
        while True:
            try:
                reply: ModelReply = await self._context.calls.call(
                    name,
                    lambda peer: peer.fetch_model.coro(epoch, base),  # noqa: B023  (awaited in this turn)
                )
            except Gone:
                return name, None, num_bytes
            if reply.status == "wait":
                record = self._context.membership.get(name)
                if record is not None and _has_stopped(record, epoch):
                    return name, None, num_bytes
                await asyncio.sleep(PAUSE_SECONDS)  # it may answer so at once, again and again
                continue
            num_bytes += reply.num_bytes
            try:
                if not epoch <= reply.epoch <= self._context.job.epochs:
                    raise BadReply(f"{name} sent a model of epoch {reply.epoch}, not of {epoch}")
                return name, self._copies.take(name, reply), num_bytes
            except BadReply as error:
                if not base:
                    self._context.membership.declare_dead(name, str(error))
                    return name, None, num_bytes
                base = 0  # a whole model will do


def _has_stopped(record: PeerRecord, epoch: int) -> bool:
    """Return whether a peer is done, and will not train an epoch."""
    return record.is_done and record.epoch < epoch


@functools.lru_cache(maxsize=8)
def _mixing(names: tuple[str, ...], spec: GraphSpec) -> Mixing:
    """Return the weights of all, which stay the same as long as nobody comes or goes."""
    return Mixing.over(names, spec)
