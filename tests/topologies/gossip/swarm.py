"""Peers on virtual time that learn nothing real: quick to play, with loss, death and newcomers as a test wants them."""

import asyncio
import math
import random

import numpy as np
import torch

from paceline.axon.transports import Link
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.axon.transports.memory import MemoryNetwork
from paceline.fleets import virtual_loop
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trained, Trainer
from paceline.topologies.gossip import Access, Holding, Known, Peer, PeerOptions, hosted

NUM_VALUES = 64


class DriftingTrainer(Trainer):
    """Adds noise to the parameters, and takes the time of a device."""

    def __init__(self, seed, samples_per_second, num_drifts=math.inf):
        self._chance = np.random.default_rng(seed)
        self._samples_per_second = samples_per_second
        self._num_drifts = num_drifts
        self._initial = {"float32": torch.zeros(NUM_VALUES)}

    def initial_parameters(self):
        return self._initial

    async def train(self, parameters, shards, **settings):
        num_samples = sum(shard.num_samples for shard in shards)
        await asyncio.sleep(num_samples / self._samples_per_second)
        is_benchmark = parameters is self._initial
        if not is_benchmark and self._num_drifts > 0:
            self._num_drifts -= 1
            noise = torch.from_numpy(self._chance.normal(size=NUM_VALUES).astype(np.float32))
            parameters = {"float32": parameters["float32"] + noise}
        return Trained(parameters, num_samples, num_samples / self._samples_per_second, False)


class Swarm:
    """Peers on one imagined network; to be used on a virtual loop, by `play`."""

    def __init__(self, job, *, loss=0.0, seed=0, num_drifts=math.inf):
        self.job = job
        self.chance = random.Random(seed)
        self.events = []
        self.peers = []  # all that ever lived
        self.models = {}  # by learner and epoch
        self.begun = {}  # the mass that each began with
        self._loss = loss
        self._seed = seed
        self._num_drifts = num_drifts
        self._network = MemoryNetwork()
        self._lives = {}

    def start(self, name, known=(), *, samples_per_second=1000.0, num_samples=64):
        """Let a peer begin."""
        number = len(self.peers)
        link = Link(latency_seconds=0.01, loss=self._loss, seed=self._seed * 101 + number)
        transport = self._network.host(name, link)
        shard = Shard(np.zeros((num_samples, 1), np.float32), np.zeros(num_samples, np.int64))
        peer = Peer(
            self.job,
            name,
            Holding(shard, number),
            DriftingTrainer((self._seed, number), samples_per_second, self._num_drifts),
            access=Access(transport=transport),
            emit=self.events.append,
            options=PeerOptions(
                known=[Known(f"http://{other}:{DEFAULT_PORT}") for other in known],
                life=number + 1,
                on_epoch=lambda learner, epoch, model: self.models.__setitem__((learner, epoch), model),
            ),
        )
        self.peers.append(peer)
        self._watch(peer)
        self._lives[name] = asyncio.ensure_future(self._live(peer, transport))
        return peer

    def _watch(self, peer):
        """Take note of the mass that a peer begins with."""
        begin = peer._exchange.begin

        def watched(mass):
            self.begun[peer.name] = mass
            begin(mass)

        peer._exchange.begin = watched

    async def _live(self, peer, transport):
        try:
            async with hosted(peer, 1 << 16, transport=transport, port=DEFAULT_PORT) as address:
                concluded = await peer.run(str(address))
                await peer.leave()
                return concluded
        except asyncio.CancelledError:
            transport.line.cut()
            raise

    async def kill(self, name):
        """Let a peer vanish without a word."""
        self._lives[name].cancel()
        await asyncio.wait((self._lives[name],))

    async def results(self):
        """What each peer that was not killed came to, when all are done."""
        await asyncio.wait(self._lives.values())
        return {name: life.result() for name, life in self._lives.items() if not life.cancelled()}

    async def end(self):
        """Let all vanish."""
        for life in self._lives.values():
            life.cancel()
        await asyncio.wait(self._lives.values())


def play(main):
    """Run a coroutine on virtual time."""
    return virtual_loop.run(main)
