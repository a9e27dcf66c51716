"""The model of a job as its rounds change it: aggregated, tried out, rolled back where it got far worse, and saved."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from paceline import plugins
from paceline.errors import ConfigError
from paceline.learning.averaging import State
from paceline.learning.checkpoints import BEST
from paceline.learning.divergence import LossWatch, are_finite, diverged
from paceline.learning.local_model import LocalModel
from paceline.learning.saved_models import SavedModel
from paceline.learning.scores import Scores
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.base import Environment
from paceline.topologies.parallel.prepared import PreparedJob
from paceline.topologies.parallel.resuming import memory_name
from paceline.topologies.parallel.rounds import OpenRound
from paceline.topologies.reporting.formatting import format_names

MAX_ROLLBACKS = 3
"""Most rounds in a row that are rolled back; one more, and training has diverged."""


class LearnedModel:
    """What was learned so far.

    Args:
        has_trained: whether any update has counted.

    Attributes:
        validator: judges updates by the parameters that they are changes of, which it holds.
        scores: what the parameters achieve on the test data; None as long as they were not evaluated.
        early_stopping: scores of all rounds, and whether they say that the job is over.
        has_trained: whether any update has counted.
    """

    def __init__(self, prepared: PreparedJob, env: Environment, *, has_trained: bool) -> None:
        self._prepared, self._env, self._job = prepared, env, prepared.job
        self._layout = prepared.model.layout
        self._aggregation, self._memory = prepared.job.aggregation, prepared.memory
        self.validator = UpdateValidator(self._layout.pack(prepared.state))
        self.scores: Scores | None = prepared.history[-1] if prepared.history else None
        self.early_stopping = prepared.job.early_stopping(prepared.history)
        self.has_trained = has_trained
        # The best model, until it is saved; of a run that goes on, an earlier one was.
        self._best = prepared.state if self.early_stopping.is_best else None
        self._watch = LossWatch(self._untrained_loss, (scores.loss for scores in prepared.history))
        self._num_rollbacks = 0  # in a row

    @property
    def parameters(self) -> Vectors:
        """Parameters that travel."""
        return self.validator.like

    @property
    def state(self) -> State:
        """Parameters after the last round that was closed; those that do not travel are as at the start."""
        return {**self._prepared.state, **self._layout.unpack(self.parameters)}

    def follow(self, closed: OpenRound) -> dict[str, Any] | None:
        """Take in the updates of a round.

        Returns the fields of a `RoundRolledBack`, if what they led to is not kept. Raises `DivergedError`, and keeps
        the model as it was, if that was so too often.
        """
        before, rolled_back = (self.validator, self._memory), None
        self._aggregate(closed)
        if self._prepared.evaluate is not None and self._env.trains:
            scores = self._prepared.evaluate(self.state)
            if self._is_bad(scores, before[0].like):
                rolled_back = self._roll_back(closed, scores.loss, before)
            else:
                self._accept(scores)
                self._num_rollbacks = self._num_rollbacks if closed.collector.num_updates == 0 else 0
        self.has_trained |= closed.collector.num_updates > 0
        return rolled_back

    def bear(self, closed: OpenRound, learners: Iterable[str], shown_by: str) -> None:
        """Do without a round that is ruined; raises `DivergedError` if there is nothing else, or it is one too many."""
        if not (self._job.rolls_back and self.has_trained and self._num_rollbacks < MAX_ROLLBACKS):
            raise diverged(f"round {closed.number} on {format_names(sorted(learners))}", shown_by)
        self._num_rollbacks += 1

    def save(self, number: int, notes: Mapping[str, str]) -> None:
        """Save what the next round starts from; raises `DiskError`.

        The parameters come last of what belongs to the round, for with them it is complete.

        Args:
            notes: what the header of the checkpoint says besides.
        """
        if self._aggregation.remembers:
            self._env.save(memory_name(number), self._memory)
        self._env.save(number, self.state, SavedModel(training=self._prepared.training), notes)
        if self.early_stopping.is_best and self.scores is not None:
            self._best = self.state
        else:
            self.save_best()

    def save_best(self) -> None:
        """Save the best model, if that was not done: only when one that is worse follows, or the run ends."""
        if self._best is not None:
            self._env.save(BEST, self._best, SavedModel(training=self._prepared.training))
            self._best = None

    def _aggregate(self, closed: OpenRound) -> None:
        """Make the next parameters of the updates that count; raises `ConfigError` if the method fails."""
        what = f"aggregation {type(self._aggregation).__name__}"
        found = plugins.guarded(what, "aggregating", closed.collector.finish, self._memory)
        try:
            following = self.validator.following(found.parameters)
            if not are_finite(found.memory):
                raise ValueError("what it remembers holds NaN or infinity")
        except ValueError as error:
            raise ConfigError(f"{what}: its parameters after round {closed.number} are of no use: {error}") from None
        self.validator, self._memory = following, found.memory

    def _is_bad(self, scores: Scores, before: Vectors) -> bool:
        evaluate = self._prepared.evaluate
        assert evaluate is not None
        is_exploded_only = not self._job.rolls_back
        return self._watch.is_bad(
            scores.loss, lambda: evaluate(self._layout.unpack(before)).loss, is_exploded_only=is_exploded_only
        )

    def _untrained_loss(self) -> float:
        assert self._prepared.evaluate is not None
        return self._prepared.evaluate(LocalModel(self._prepared.training, allowed=None).state()).loss

    def _accept(self, scores: Scores | None) -> None:
        """Take in the scores of the model that the next round starts from."""
        self.scores = scores
        if scores is not None:
            self._watch.add(scores.loss)
            self.early_stopping.add(scores)

    def _roll_back(self, closed: OpenRound, loss: float, before: tuple[UpdateValidator, State]) -> dict[str, Any]:
        """Keep the median of a round's updates instead, or if that is no better, the model from before.

        Raises `DivergedError` if that was so too often.
        """
        self.validator, self._memory = before
        lowest, kept = self._watch.lowest, "before"
        median = closed.collector.median() if self._job.rolls_back else None
        if median is not None and self._is_better(median):
            kept = "median"
        else:
            self.bear(closed, closed.delivered, f"the loss of the averaged model is {loss:.3g}")
            self._accept(self.scores)
        contributions = closed.collector.contributions
        total = sum(one.counted_weight for one in contributions)
        return {
            "round": closed.number,
            "loss": loss if math.isfinite(loss) else None,
            "lowest_loss": lowest,
            "kept": kept,
            "weights": {one.learner: one.counted_weight / total for one in contributions},
            "norms": {one.learner: one.norm for one in contributions},
        }

    def _is_better(self, parameters: Vectors) -> bool:
        """Try other parameters, and keep them unless they are as bad."""
        before, evaluate = self.validator, self._prepared.evaluate
        assert evaluate is not None
        with contextlib.suppress(ValueError):
            self.validator = before.following(parameters)
            scores = evaluate(self.state)
            if not self._is_bad(scores, before.like):
                self._accept(scores)
                return True
        self.validator = before
        return False
