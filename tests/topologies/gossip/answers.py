"""Peers and stores that answer what a test wants, to try one part of a peer alone."""

import math

import torch

from paceline.errors import Unreachable
from paceline.learning.trainers import Trained, Trainer
from paceline.topologies.gossip.calls import Gone, PeerCalls
from paceline.topologies.gossip.exchange import ExchangeContext
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.membership import Membership, PeerRecord
from paceline.topologies.gossip.stores import Store


def record(name, **changes):
    return PeerRecord(**{"name": name, "address": f"http://{name}:7223", "life": 1, **changes})


def model(value=0.0):
    return {"float32": torch.full((4,), float(value))}


class StillTrainer(Trainer):
    """Learns nothing, at once; remembers how many samples it was given each time."""

    def __init__(self):
        self.trained = []

    def initial_parameters(self):
        return model()

    async def train(self, parameters, shards, options=None):
        self.trained.append(sum(shard.num_samples for shard in shards))
        return Trained(parameters, self.trained[-1], 1.0, False)


class DictStore(Store):
    """Keeps figures in a dictionary, which may be shared, and fails if a test wants that."""

    def __init__(self, name="a dictionary", shared=None):
        self.name = name
        self.kept = {} if shared is None else shared
        self.fails_with = None
        self.is_away = False
        self.num_closed = 0
        self.num_tries = 0

    async def publish(self, figures):
        self._try()
        self.kept[figures.learner] = figures

    async def read(self):
        self._try()
        return dict(self.kept)

    async def aclose(self):
        self.num_closed += 1
        if self.fails_with is not None:
            raise self.fails_with

    def _try(self):
        self.num_tries += 1
        if self.is_away:
            raise Unreachable("nobody there")
        if self.fails_with is not None:
            raise self.fails_with


class ScriptedCalls(PeerCalls):
    """In place of calls, gives what a test has prepared for a peer, one after the other, the last one for ever.

    Attributes:
        made: the peers that were called, with what was asked.
    """

    def __init__(self, membership, answers):
        super().__init__(membership, node=None, patience_seconds=1.0, model_bytes=0)
        self._answers = {name: list(scripted) for name, scripted in answers.items()}
        self.made = []

    async def call(self, name, ask):
        known = self._membership.get(name)
        if known is None or not known.is_living:
            raise Gone(f"{name} is gone")
        scripted = self._answers[name]
        answer = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        asked = _Asked()
        coroutine = ask(asked)
        try:
            coroutine.send(None)
        except StopIteration:
            pass
        finally:
            coroutine.close()
        self.made.append((name, *asked.call))
        if isinstance(answer, Exception):
            self._declare_dead(known, str(answer))
            raise Gone(f"{name} is gone: {answer}") from answer
        return answer


class _Asked:
    """Takes note of what would be called."""

    def __getattr__(self, name):
        self._name = name
        return self

    async def coro(self, *arguments):
        self.call = (self._name, *arguments)


def context(answers=None, me="a", **rules):
    """What an exchange of a peer needs that knows whoever answers."""
    job = GossipJob(**{"graph": "full", "epochs": 10, **rules})
    membership = Membership(record(me))
    membership.merge(map(record, answers or {}))
    calls = ScriptedCalls(membership, answers or {})
    return ExchangeContext(
        job=job, name=me, trainer=StillTrainer(), membership=membership, calls=calls, start=model(math.pi)
    )
