"""Where an interrupted run goes on: at most the round that was open is lost."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.events import Event
from paceline.topologies.parallel.events import RoundClosed


def without_open_round(recorded: Sequence[Event]) -> list[Event]:
    """Keep the events of closed rounds: all up to the last `RoundClosed`, and those after it that are of such a round.

    All else after it is dropped: the round that was open happens again, learners join again, and an end is none.
    Without any closed round nothing is kept.
    """
    closings = [(index, event.round) for index, event in enumerate(recorded) if isinstance(event, RoundClosed)]
    if not closings:
        return []
    last, last_round = closings[-1]
    of_closed_rounds = [event for event in recorded[last + 1 :] if 1 <= getattr(event, "round", 0) <= last_round]
    return [*recorded[: last + 1], *of_closed_rounds]
