"""What every fleet does: run a plan with its devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from paceline.events import Emit, RunEnded
from paceline.learning.averaging import State
from paceline.topologies.parallel import Plan


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A run about to start.

    Attributes:
        state: the parameters to start from.
        emit: is told of all that happens.
        save: keeps the parameters after each round.
        first_round: later than 1 for a run that goes on.
        started_at: the `at` of the first event.
    """

    plan: Plan
    state: State
    emit: Emit
    save: Callable[[int, State], None] = lambda round, state: None
    first_round: int = 1
    started_at: float = 0.0


class Outcome(NamedTuple):
    """How a run ended, and what was learned."""

    ended: RunEnded
    state: State


class Fleet(ABC):
    """Devices, and where they run."""

    @abstractmethod
    def run(self, launch: Launch) -> Outcome:
        """Play all rounds; blocks until the run is over. Leaves no process, thread or port behind, however it ends."""
