"""Pushes that nobody waits for: GoSGD, the exchange of models at random."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets

from paceline.learning.shards import Shard
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.gossip.calls import Delivery, Gone
from paceline.topologies.gossip.exchange import EpochResult, Exchange, ExchangeContext
from paceline.topologies.gossip.mass import FULL_MASS, MAX_MASS, MassAccount, MassState, Push
from paceline.topologies.gossip.membership import MAX_MEMBERS, PeerRecord
from paceline.topologies.gossip.messages import ModelReply

_MAX_WAITING = 64  # models that arrived and are not merged yet; more are refused, since each takes memory


class PushSumExchange(Exchange):
    """GoSGD (Blot et al., 2019): after a minibatch, with some probability, pushes the model to one of the others."""

    def __init__(self, context: ExchangeContext) -> None:
        super().__init__(context)
        self.account = MassAccount(context.journal)
        self._rng = random.Random(f"{context.job.seed}/{context.name}")
        self._sync = context.sync_journal
        self._validator = UpdateValidator(context.start)
        self._waiting: list[tuple[int, Vectors]] = []
        self._heard: set[str] = set()
        self._pushes: dict[asyncio.Task[None], None] = {}  # in the order in which they were sent
        self._shared: dict[str, int] = {}
        self._num_sent = 0
        self._nonce = secrets.token_hex(
            8
        )  # clocks may go back, and lives with them: a push must not look like an old one
        self._is_finished = False

    @property
    def mass(self) -> float:
        return (self.account.mass + self.account.waiting) / FULL_MASS

    def begin(self, mass: int) -> None:
        self.account.begin(mass)

    def mass_state(self) -> MassState:
        return self.account.state()

    def restore(self, mass: MassState | None) -> None:
        if mass is not None:
            self.account.restore(mass)

    async def train(self, epoch: int, parameters: Vectors, shard: Shard) -> EpochResult:
        result = EpochResult(parameters)
        self._heard.clear()
        batch_size, first = self._context.job.batch_size, 0
        while first < shard.num_samples:
            num_batches, is_pushed = self._until_push(math.ceil((shard.num_samples - first) / batch_size))
            last = min(first + num_batches * batch_size, shard.num_samples)
            if shard.num_samples - last < 2:  # a single sample is too few for batch normalisation
                last = shard.num_samples
            segment = shard.take(slice(first, last))
            trained = await self._context.train(epoch, result.parameters, segment)
            result.parameters = trained.parameters
            result.num_samples += trained.num_samples
            result.train_seconds += trained.seconds
            result.num_exchanges += len(self._waiting)
            result.parameters = self._merged(result.parameters)
            result.heard = tuple(sorted(self._heard))
            if is_pushed:
                self._send(result.parameters)
            first = last
        return result

    async def finish(self, parameters: Vectors) -> Vectors:
        if self._pushes:
            await asyncio.wait(self._pushes)
        self._is_finished = True
        return self._merged(parameters)

    async def fetch_model(self, epoch: int, base: int, wait_seconds: float) -> ModelReply:
        raise ValueError("in this job models are pushed; ask for the newest with fetch_newest")

    async def push(self, transfer: str, mass: int, parameters: Vectors) -> bool:
        if not 0 < mass <= MAX_MASS:
            raise ValueError(f"the mass of a push is above 0 and at most {MAX_MASS}")
        reason = self._validator.why_unusable(parameters)
        if reason is not None:
            raise ValueError(f"the parameters do not fit the model: {reason}")
        if self.account.has_arrived(transfer):
            return True
        if self._is_finished or len(self._waiting) >= _MAX_WAITING:
            return False
        self.account.arrive(transfer, mass)
        self._waiting.append((mass, parameters))
        sender = transfer.partition("/")[0]
        if self._context.membership.get(sender) is not None:
            self._heard.add(sender)
        self._context.traffic.received += sum(vector.nbytes for vector in parameters.values())
        await self._sync()  # who sent it lets go of it with the answer
        return True

    def share(self, newcomer: PeerRecord, transfer: str) -> int:
        life = f"{newcomer.name}/{newcomer.life}"
        if life not in self._shared and len(self._shared) < MAX_MEMBERS:
            push = self.account.send(transfer, newcomer.name)
            self._shared[life] = 0 if push is None else push.mass
            self.account.confirm(transfer)
        return self._shared.get(life, 0)

    async def aclose(self) -> None:
        for push in list(self._pushes):
            push.cancel()
        await asyncio.gather(*self._pushes, return_exceptions=True)

    def _until_push(self, most: int) -> tuple[int, bool]:
        """Draw the minibatches to train before the next push, at most so many, and whether it comes after those."""
        for number in range(1, most + 1):
            if self._rng.random() < self._context.job.push_probability:
                return number, True
        return most, False

    def _merged(self, parameters: Vectors) -> Vectors:
        if not self._waiting:
            return parameters
        merged = {kind: vector.clone() for kind, vector in parameters.items()}
        for mass, model in self._waiting:
            part = self.account.absorb(mass)
            for kind, vector in merged.items():
                if vector.is_floating_point():
                    vector.lerp_(model[kind], part)
        self._waiting.clear()
        return merged

    def _send(self, parameters: Vectors) -> None:
        others = [record for record in self._context.membership.others() if not record.is_done]
        if not others:
            return
        to = self._rng.choice(others)
        self._num_sent += 1
        push = self.account.send(f"{self._context.name}/{self._nonce}/{self._num_sent}", to.name)
        if push is not None:
            task = asyncio.ensure_future(self._deliver(push, parameters))
            self._pushes[task] = None
            task.add_done_callback(self._pushes.pop)

    async def _deliver(self, push: Push, parameters: Vectors) -> None:
        delivery, is_taken = Delivery(), False
        await self._sync()  # or who receives it would count what this peer still has, if it dies now
        content = (self._context.name, push.transfer, push.mass, parameters)
        with contextlib.suppress(Gone):
            is_taken = await self._context.calls.call(push.to, lambda peer: delivery.attempt(peer.push.coro(*content)))
        if is_taken:
            self.account.confirm(push.transfer)
            self._context.traffic.sent += sum(vector.nbytes for vector in parameters.values())
        elif not delivery.is_uncertain:
            self.account.take_back(push.transfer)
