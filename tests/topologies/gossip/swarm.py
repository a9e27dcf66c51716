"""Peers on virtual time that learn nothing real: quick to play, with loss, death and newcomers as a test wants them."""

import asyncio
import collections
import math
import random

import numpy as np
import torch

from paceline.axon.keys import DeviceKey
from paceline.axon.transports import CountedTransport, Link
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.axon.transports.memory import MemoryNetwork
from paceline.devices.background_load import NoBackgroundLoad
from paceline.devices.energy import ModelledMeter, PowerModel
from paceline.devices.machines import Machine
from paceline.fleets import virtual_loop
from paceline.learning.shards import Shard
from paceline.learning.trainers import Trained, Trainer
from paceline.topologies.base import Contact, DeviceOptions, Node, run_in_place, serving
from paceline.topologies.gossip.events import PeerEnded
from paceline.topologies.gossip.final_average import FinalAverage
from paceline.topologies.gossip.peer import Peer
from paceline.topologies.gossip.peer_data import Holding
from paceline.topologies.gossip.prepared import PreparedJob
from paceline.topologies.gossip.topology import GossipPlan

NUM_VALUES = 64


class DriftingTrainer(Trainer):
    """Adds noise to the parameters, and takes the time of a device."""

    def __init__(self, seed, samples_per_second, num_drifts=math.inf):
        self._rng = np.random.default_rng(seed)
        self._samples_per_second = samples_per_second
        self._num_drifts = num_drifts
        self._initial = {"float32": torch.zeros(NUM_VALUES)}

    def initial_parameters(self):
        return self._initial

    async def train(self, parameters, shards, options=None):
        num_samples = sum(shard.num_samples for shard in shards)
        await asyncio.sleep(num_samples / self._samples_per_second)
        is_benchmark = parameters is self._initial
        if not is_benchmark and self._num_drifts > 0:
            self._num_drifts -= 1
            noise = torch.from_numpy(self._rng.normal(size=NUM_VALUES).astype(np.float32))
            parameters = {"float32": parameters["float32"] + noise}
        return Trained(parameters, num_samples, num_samples / self._samples_per_second, False)


class DriftingMachine(Machine):
    """A machine whose trainer only drifts."""

    def __init__(self, *arguments):
        self._arguments = arguments
        self._meter = ModelledMeter(PowerModel(), lambda: asyncio.get_running_loop().time())

    @property
    def meter(self):
        return self._meter

    def trainer(self, task):
        return DriftingTrainer(*self._arguments)

    def engine(self, operations_per_sample):
        raise NotImplementedError

    def background_load(self, fetch):
        return NoBackgroundLoad()


class DriftingJob(PreparedJob):
    """A job without data and without a model."""

    model_bytes = 1 << 16
    metric_names = ()
    base = ""

    def __init__(self, job):
        super().__init__(job, None, None, None)

    def state(self, parameters):
        return parameters

    def begin(self, trainer):
        return {kind: vector.clone() for kind, vector in trainer.initial_parameters().items()}

    def evaluate_on(self, accelerator):
        pass


def contacts(*names):
    """Peers to join, by name."""
    return [Contact(f"http://{name}:{DEFAULT_PORT}") for name in names]


def shard(num_samples):
    return Shard(np.zeros((num_samples, 1), np.float32), np.zeros(num_samples, np.int64))


class Swarm:
    """Peers on one imagined network; to be used on a virtual loop, by `play`. Those behind NAT listen nowhere."""

    def __init__(self, job, *, loss=0.0, seed=0, num_drifts=math.inf, disk=None, has_keys=False):
        self.job = job
        self.rng = random.Random(seed)
        self.events = []
        self.peers = []  # all that ever lived
        self.models = {}  # by learner and epoch
        self.begun = {}  # the mass that each began with
        self._disk = disk
        self._keys = collections.defaultdict(DeviceKey.generate) if has_keys else None
        self.network = MemoryNetwork()
        self.lives = {}
        self.links = {}  # of the peers by name
        self._prepared = DriftingJob(job)
        self._loss = loss
        self._seed = seed
        self._num_drifts = num_drifts

    def make(
        self, name, known=(), *, host=None, life=None, samples_per_second=1000.0, num_samples=64, number=None, **options
    ):
        """Make a peer that nobody calls yet; returns it with its transport."""
        number = len(self.peers) if number is None else number
        link = Link(latency_seconds=0.01, loss=self._loss, seed=self._seed * 101 + number)
        transport = self.network.host(host or name, link)
        node = Node(
            name=name,
            life=life or number + 1,
            contacts=contacts(*known),
            transport=CountedTransport(transport),
            machine=DriftingMachine((self._seed, number), samples_per_second, self._num_drifts),
            emit=self.events.append,
            clock="virtual",
            run_blocking=run_in_place,
            key=None if self._keys is None else self._keys[name],
            options=DeviceOptions(
                state_file=None if self._disk is None else self._disk / f"{name}.safetensors", **options
            ),
        )
        peer = Peer(
            self._prepared,
            node,
            Holding(shard(num_samples), number),
            on_epoch=lambda learner, epoch, model: self.models.__setitem__((learner, epoch), model),
        )
        return peer, transport

    def serving(self, peer, transport):
        """Let others call a peer."""
        return serving(peer, GossipPlan(self._prepared), peer.name, transport=transport, port=DEFAULT_PORT)

    def start(self, name, known=(), **settings):
        """Let a peer begin."""
        peer, transport = self.make(name, known, **settings)
        self.peers.append(peer)
        self.links[name] = transport.link
        self._watch(peer)
        is_called = not settings.get("behind_nat")
        self.lives[name] = asyncio.ensure_future(self._live(peer, transport, is_called=is_called))
        return peer

    def _watch(self, peer):
        """Take note of the mass that a peer begins with."""
        begin = peer._exchange.begin

        def watched(mass):
            self.begun[peer.name] = mass
            begin(mass)

        peer._exchange.begin = watched

    async def _live(self, peer, transport, *, is_called):
        try:
            if not is_called:
                return await peer.run("")
            async with self.serving(peer, transport) as address:
                return await peer.run(address)
        except asyncio.CancelledError:
            transport.link.cut()
            raise

    async def kill(self, name):
        """Let a peer vanish without a word."""
        self.lives[name].cancel()
        await asyncio.wait((self.lives[name],))

    async def results(self):
        """What each peer that was not killed came to, when all are done."""
        await asyncio.wait(self.lives.values())
        averaged = {event.learner: event.averaged for event in self.events if isinstance(event, PeerEnded)}
        return {
            name: FinalAverage(life.result().state, averaged[name])
            for name, life in self.lives.items()
            if not life.cancelled()
        }

    async def end(self):
        """Let all vanish."""
        for life in self.lives.values():
            life.cancel()
        await asyncio.wait(self.lives.values())


def play(main):
    """Run a coroutine on virtual time."""
    return virtual_loop.run(main)
