"""Updates that come after their round closed: who may still send one, and what waits for the next round."""

from __future__ import annotations

from paceline.learning.aggregation import Aggregation
from paceline.learning.aggregation.staleness import discount, rebased
from paceline.learning.compression import Compression
from paceline.learning.update_validation import UpdateValidator
from paceline.learning.vectors import Vectors
from paceline.topologies.parallel.rounds import OpenRound, Share, TrainedShare, restored

_MAX_ROUNDS = 2  # that an update may be late by: who has missed more is taken for gone, and joins again


class LateUpdates:
    """Keeps track of learners that took work in rounds that are closed, and have not delivered it.

    If late updates are dropped, of the last round only, to report how late they were.

    Attributes:
        max_rounds: most rounds that an update may be late by.
        counts_in: round in which an update counts that comes now.
    """

    def __init__(self, aggregation: Aggregation, first_round: int, compression: Compression) -> None:
        self.max_rounds = _MAX_ROUNDS if aggregation.late == "discount" else 1
        self.counts_in = first_round
        self._compression = compression
        self._exponent = aggregation.staleness_exponent
        self._shares: dict[int, dict[str, Share]] = {}  # by round and learner, of those that have not delivered
        self._validators: dict[int, UpdateValidator] = {}
        self._waiting: list[TrainedShare] = []

    def close(self, closed: OpenRound) -> list[TrainedShare]:
        """Note who is late in a round that closes, and return the updates that waited for it."""
        self.counts_in = closed.number + 1
        self._shares[closed.number] = {learner: closed.shares[learner] for learner in closed.late}
        self._validators[closed.number] = closed.validator
        self._forget()
        waiting, self._waiting = self._waiting, []
        return waiting

    def is_late(self, learner: str, round: int) -> bool:
        """Return whether a learner took work in a closed round, and has not delivered it."""
        return learner in self._shares.get(round, {})

    def drop(self, learner: str, round: int) -> None:
        """Wait for a learner's late update no longer."""
        del self._shares[round][learner]
        self._forget()

    def accept(
        self, learner: str, round: int, sent: Vectors, num_samples: int, *, seconds: float, audit: bool
    ) -> str | None:
        """Keep a late update for the round that closes next; returns the reason if it cannot be used.

        Args:
            sent: its parameters as the compression has them sent.
            seconds: time since its round opened.
            audit: whether it is to be audited first.
        """
        share, validator = self._shares[round][learner], self._validators[round]
        self.drop(learner, round)  # there is no second try
        parameters, reason = restored(self._compression, sent, validator)
        reason = share.why_impossible(num_samples) or reason or validator.why_diverged(parameters)
        if reason is None:
            share.arrive(seconds)
            start = validator.like
            self._waiting.append(TrainedShare(learner, round, share, start, parameters, num_samples, audit=audit))
        return reason

    def part_counted(self, round: int) -> float:
        """Return what of the change of an update of this round counts, if it comes now."""
        return discount(self.counts_in - round, self._exponent)

    def rebased(self, update: TrainedShare, start: Vectors, number: int) -> Vectors:
        """Return the parameters by which a late update counts in a round that started from others."""
        return rebased(update.parameters, update.start, start, discount(number - update.round, self._exponent))

    def _forget(self) -> None:
        """Forget rounds that nobody is late in, or too far back: each takes as much memory as the model."""
        for number, shares in list(self._shares.items()):
            if not shares or self.counts_in - number > self.max_rounds:
                del self._shares[number], self._validators[number]
