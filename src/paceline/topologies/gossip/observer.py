"""The role that stays with a gossip run: nobody needs it to train; it watches, and keeps what came of the run."""

from __future__ import annotations

import paceline
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.vectors import Vectors
from paceline.topologies.base import Environment, Finished, Host, Node, Outcome
from paceline.topologies.gossip.consensus import Consensus, OnEpoch
from paceline.topologies.gossip.events import GossipEnded, GossipStarted, PeerEnded, PeerStarted
from paceline.topologies.gossip.prepared import PreparedJob
from paceline.topologies.sessions import Changes


class Observer(Host):
    """Waits until nobody trains any more, and keeps the model of whoever averaged most."""

    def __init__(self, prepared: PreparedJob, env: Environment) -> None:
        super().__init__(env)
        self._prepared = prepared
        self._changes = Changes()
        self._consensus = Consensus(env.emit, env.now, self._evaluated)
        self._numbers: dict[str, int] = {}
        self._training: set[str] = set()
        self._averaged: dict[str, tuple[str, ...]] = {}
        self._final: dict[str, State] = {}  # by the peer that ended with it
        self._last_at = 0.0
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        assert self._outcome is not None
        return self._outcome

    @property
    def min_left(self) -> int:
        return 0 if self._training or self._final else self._prepared.job.min_peers

    async def run(self, address: str) -> None:
        prepared, env = self._prepared, self.env
        env.emit(
            GossipStarted(
                at=0.0,
                job=prepared.job.described(),
                clock=env.clock,
                num_parameters=prepared.num_parameters,
                paceline=paceline.__version__,
            )
        )
        await self._changes.until(lambda: bool(self._final) and not self._training)
        # Of those that averaged as many, the first device.
        best = max(sorted(self._final, key=self._number), key=lambda name: len(self._averaged.get(name, ())))
        state, averaged = self._final[best], self._averaged.get(best, ())
        loss, accuracy = None, None
        if env.trains:
            loss, accuracy = await env.run_blocking(lambda: prepared.evaluate(state))
        env.emit(GossipEnded(at=self._last_at, averaged=averaged, loss=loss, accuracy=accuracy))
        env.save("final", state)
        self._outcome = Outcome(state, {"loss": loss, "accuracy": accuracy, "averaged": averaged})

    def admit(self, node: Node) -> OnEpoch:
        """Take note of a peer in this process; returns what receives its models."""
        self._numbers[node.name] = node.number
        if self.env.clock != "virtual":
            return lambda name, epoch, parameters: None
        if self.env.now() == 0:
            self._consensus.expect(node.name)
        return self._consensus.add

    def hear(self, event: Event) -> None:
        super().hear(event)
        self._last_at = event.at
        if isinstance(event, PeerStarted):
            self._training.add(event.learner)
        elif isinstance(event, PeerEnded):
            self._averaged[event.learner] = event.averaged

    def member_ended(self, name: str, finished: Finished | None) -> None:
        self._training.discard(name)
        if finished is None:
            self._consensus.forget(name)
        elif finished.state is not None:
            self._final[name] = finished.state
            if self.env.clock == "live":
                self.env.save(name, finished.state)
        self._changes.notify()

    def _number(self, name: str) -> int:
        return self._numbers.get(name, 0)

    def _evaluated(self, parameters: Vectors) -> tuple[float | None, float | None]:
        return self._prepared.evaluate(self._prepared.state(parameters)) if self.env.trains else (None, None)
