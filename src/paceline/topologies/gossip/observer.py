"""The role that stays with a gossip run: nobody needs it to train; it watches, and keeps what came of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

import paceline
from paceline.errors import DiskError
from paceline.events import Emit, Event
from paceline.learning.averaging import RunningAverage, State
from paceline.learning.divergence import diverged, has_exploded
from paceline.learning.saved_models import SavedModel
from paceline.learning.scores import Scores, fields_of, figures_of
from paceline.learning.vectors import Vectors
from paceline.topologies.base import Environment, Finished, Host, Node, Outcome, save_nothing
from paceline.topologies.events import STOPPED
from paceline.topologies.gossip.events import (
    ConsensusMeasured,
    EndReason,
    GossipEnded,
    GossipStarted,
    PeerEnded,
    PeerStarted,
)
from paceline.topologies.gossip.peer_state import PeerState, at_one_moment, packed_all
from paceline.topologies.gossip.prepared import PreparedJob
from paceline.topologies.gossip.resuming import MomentNotes, peers_name
from paceline.topologies.reporting.formatting import format_names
from paceline.topologies.saving import SAVING_SECONDS, until_saved
from paceline.topologies.sessions import Changes

OnEpoch: TypeAlias = Callable[[str, int, Vectors], None]
"""Receives the name, the epoch and the model of a peer that trained another epoch."""


class Consensus:
    """Compares the models of all peers whenever each has, on average, trained another epoch.

    Args:
        evaluate: returns what a model achieves; None to leave that out.
        keep: receives what was found, and the average, before that is recorded; returns whether it may be, rather than
            what is found after the next epoch of a peer.
        num_measured: how often peers were compared before.
    """

    def __init__(
        self,
        emit: Emit,
        now: Callable[[], float],
        evaluate: Callable[[Vectors], Scores | None],
        keep: Callable[[ConsensusMeasured, Vectors], bool] = lambda measured, mean: True,
        num_measured: int = 0,
    ) -> None:
        self._keep = keep
        self._num_measured = num_measured
        self._emit = emit
        self._now = now
        self._evaluate = evaluate
        self._awaited: set[str] = set()
        self._newest: dict[str, Vectors] = {}
        self._epochs: dict[str, int] = {}
        self._num_added = 0

    def expect(self, name: str) -> None:
        """Measure nothing before this peer has trained an epoch, or is gone."""
        self._awaited.add(name)

    def resume(self, name: str, epoch: int, parameters: Vectors) -> None:
        """Take in the model that a peer goes on from, which is compared with those that others train."""
        self._newest[name], self._epochs[name] = parameters, epoch

    def add(self, name: str, epoch: int, parameters: Vectors) -> None:
        """Take in the model of a peer after an epoch."""
        self._newest[name], self._epochs[name] = parameters, epoch
        self._awaited.discard(name)
        self._num_added += 1
        if not self._awaited and self._num_added >= len(self._newest):
            self._measure(round(sum(self._epochs.values()) / len(self._epochs)))

    def forget(self, name: str) -> None:
        """Leave a peer out that is gone."""
        self._newest.pop(name, None)
        self._epochs.pop(name, None)
        self._awaited.discard(name)

    def _measure(self, epoch: int) -> None:
        average = RunningAverage()
        for parameters in self._newest.values():
            average.add(parameters, 1.0)
        mean = average.result(next(iter(self._newest.values())))
        squares = [_squared_distance(parameters, mean) for parameters in self._newest.values()]
        length = _squared_distance(mean, {kind: torch.zeros_like(vector) for kind, vector in mean.items()})
        measured = ConsensusMeasured(
            at=self._now(),
            number=self._num_measured + 1,
            epoch=epoch,
            num_learners=len(squares),
            distance=(sum(squares) / len(squares) / max(length, 1e-30)) ** 0.5,
            **fields_of(self._evaluate(mean)),
        )
        if self._keep(measured, mean):
            self._num_added = 0
            self._num_measured += 1
            self._emit(measured)


def _squared_distance(one: Vectors, other: Vectors) -> float:
    return sum(float((one[kind] - other[kind]).square().sum()) for kind in one if one[kind].is_floating_point())


class Observer(Host):
    """Waits until nobody trains any more, and keeps the model of whoever averaged most.

    On virtual time it also keeps, after each epoch, what all peers need to go on; else each keeps that by itself.

    Args:
        goes_on: whether the run was interrupted, and goes on.
        num_measured: how often all peers have been compared.
    """

    def __init__(
        self, prepared: PreparedJob, env: Environment, *, goes_on: bool = False, num_measured: int = 0
    ) -> None:
        super().__init__(env)
        self._goes_on = goes_on
        self._states: dict[str, Callable[[], PeerState | None]] = {}
        self._prepared = prepared
        prepared.evaluate_on(env.machine.accelerator)
        self._changes = Changes()
        self._consensus = Consensus(env.emit, env.now, self._evaluated, self._keep, num_measured)
        self._started: GossipStarted | None = None
        self._numbers: dict[str, int] = {}
        self._training: set[str] = set()
        self._averaged: dict[str, tuple[str, ...]] = {}
        self._final: dict[str, State] = {}  # by the peer that ended with it
        self._reasons: list[EndReason] = []  # of peers that ended before the last epoch
        self._last_at = 0.0
        self._give_up_at: float | None = None  # keeping what peers need, while the disk refuses it
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome:
        assert self._outcome is not None
        return self._outcome

    @property
    def min_left(self) -> int:
        return 0 if self._training or self._final else self._prepared.job.min_peers

    async def run(self, address: str) -> None:
        prepared, env, metric_names = self._prepared, self.env, self._prepared.metric_names
        self._started = GossipStarted(
            at=env.now() if self._goes_on else 0.0,
            job=prepared.job.described(),
            clock=env.clock,
            metric_names=metric_names,
            num_parameters=prepared.num_parameters,
            paceline=paceline.__version__,
        )
        env.emit(self._started)
        await self._changes.until(lambda: bool(self._final) and not self._training)
        # Of those that averaged as many, the first device.
        best = max(
            sorted(self._final, key=lambda name: self._numbers.get(name, 0)),
            key=lambda name: len(self._averaged.get(name, ())),
        )
        state, averaged = self._final[best], self._averaged.get(best, ())
        scores: Scores | None = None
        if env.trains:
            scores = found = await env.run_blocking(lambda: prepared.evaluate(state))
            if has_exploded(found.loss):
                raise diverged(f"the end on {format_names(averaged)}", f"the loss of their average is {found.loss:.3g}")
        model = SavedModel(training=prepared.training)
        await until_saved(lambda: env.run_blocking(lambda: env.save("final", state, model)))
        # Last: a run whose end is recorded does not go on, so a crash before it must find the model saved.
        env.emit(GossipEnded(at=self._last_at, averaged=averaged, reason=self._end_reason(), **fields_of(scores)))
        self._outcome = Outcome(state, {**figures_of(scores, metric_names), "averaged": averaged})

    def admit(self, node: Node) -> OnEpoch:
        """Take note of a peer in this process; returns what receives its models."""
        self._numbers[node.name] = node.number
        if self.env.clock != "virtual":
            return lambda name, epoch, parameters: None
        if self.env.now() == 0:
            self._consensus.expect(node.name)
        return self._consensus.add

    @property
    def keeps(self) -> bool:
        """Whether it keeps what peers in this process need to go on."""
        return self.env.trains and self.env.clock == "virtual" and self.env.save is not save_nothing

    def see(self, name: str, state_of: Callable[[], PeerState | None]) -> None:
        """Take note of how to learn what a peer in this process needs to go on."""
        self._states[name] = state_of
        state = state_of()
        if state is not None:  # it goes on, maybe only to the end: so nothing waits for an epoch of it
            self._consensus.resume(name, state.about.epoch, state.parameters)

    def _keep(self, measured: ConsensusMeasured, mean: Vectors) -> bool:
        """Keep what all peers need to go on, at one moment of virtual time: so no mass counts twice.

        Returns whether that may be recorded; False if the disk refuses it, but not for long. Then peers go on.
        """
        if not self.keeps:
            return True
        assert self._started is not None
        notes = MomentNotes(started=self._started, measured=measured).as_texts()
        found = [state_of() for _, state_of in sorted(self._states.items())]
        peers = packed_all(at_one_moment([state for state in found if state is not None]))
        try:
            self.env.save(peers_name(measured.number), peers)
            self.env.save(
                measured.number, self._prepared.state(mean), SavedModel(training=self._prepared.training), notes
            )
        except DiskError:
            self._give_up_at = self._give_up_at or self.env.now() + SAVING_SECONDS
            if self.env.now() >= self._give_up_at:
                raise
            return False
        self._give_up_at = None
        return True

    def note(self, event: Event) -> None:
        super().note(event)
        self._last_at = event.at
        if isinstance(event, PeerStarted):
            self._training.add(event.learner)
        elif isinstance(event, PeerEnded):
            self._averaged[event.learner] = event.averaged
            if event.reason != "epochs done" and event.reason != "stopped early":
                self._reasons.append(event.reason)

    def member_ended(self, name: str, finished: Finished | None) -> None:
        self._training.discard(name)
        self._states.pop(name, None)
        if finished is None:
            self._consensus.forget(name)
        elif finished.state is not None:
            self._final[name] = finished.state
            if self.env.clock == "live":
                self.env.save(name, finished.state, SavedModel(training=self._prepared.training))
        self._changes.notify()

    def _end_reason(self) -> EndReason:
        """Return why it is over: what most of the peers say that ended before the last epoch, if any did."""
        if self.env.is_stopping():
            return STOPPED
        return max(self._reasons, key=self._reasons.count, default="epochs done")

    def _evaluated(self, parameters: Vectors) -> Scores | None:
        return self._prepared.evaluate(self._prepared.state(parameters)) if self.env.trains else None
