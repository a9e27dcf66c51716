"""The paper's analytical baseline of CSA: suggest shares by the conditions of an optimum, then improve them.

Mohammad and Sorour bound the optimum by the KKT conditions of the relaxed program, round, and improve. The conditions
give τ_k and d_k by multipliers that are unknown, (11) and (12). What follows without them: learners that are not at a
limit of their samples all do the same τ local epochs if the staleness is 0, by (8c) each then takes
(T − C0) / (C1 + C2·τ) samples, and that these add up gives τ. Rounded to whole numbers that keep the limits, this is
the suggestion. The paper does not say which steps improve it. Here they are moves of samples, as long as one helps: to
let a learner of the fewest local epochs do one more, or to make one of the most do one less.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from paceline.allocation.csa.repair import repair
from paceline.allocation.csa.steps import Counts, Seconds, Steps
from paceline.allocation.rounding import split_evenly
from paceline.allocation.staleness import sum_of_differences
from paceline.checks import MOST

MAX_MOVES_PER_LEARNER = 20


def suggest_and_improve(steps: Steps, total: int, min_local_epochs: int) -> Counts:
    """Find shares that no move improves; there must be no conflict."""
    steps = steps.limited(steps.most_for(min_local_epochs))
    return improve(steps, repair(steps, suggested_counts(steps, total), total, min_local_epochs))


def suggested_counts(steps: Steps, total: int) -> Seconds:
    """Find real shares of equal local epochs, as far as the limits allow, that add up to the total."""

    def counts(local_epochs: float) -> Seconds:
        with np.errstate(divide="ignore", invalid="ignore"):
            fitting = steps.left_seconds / (steps.c1 + steps.c2 * local_epochs)
        # nan: no seconds left for no local epochs, which any number of samples allows
        return np.clip(np.nan_to_num(fitting, nan=np.inf), steps.low, steps.high)

    fits, fails = 0.0, float(steps.local_epochs(steps.low).max()) + 1
    for _ in range(100):
        middle = (fits + fails) / 2
        if counts(middle).sum() >= total:
            fits = middle
        else:
            fails = middle
    return counts(fits)


def improve(steps: Steps, counts: Counts) -> Counts:
    """Move samples until no move lowers the staleness, or the average staleness without raising it."""
    for _ in range(MAX_MOVES_PER_LEARNER * len(counts)):
        now = _stale(steps, counts)
        better = [moved for moved in _moves(steps, counts) if _stale(steps, moved) < now]
        if not better:
            break
        counts = min(better, key=lambda moved: _stale(steps, moved))
    return counts


def _stale(steps: Steps, counts: Counts) -> tuple[int, int]:
    local_epochs = sorted(steps.local_epochs(counts).tolist())
    return local_epochs[-1] - local_epochs[0], sum_of_differences(local_epochs)


def _moves(steps: Steps, counts: Counts) -> Iterator[Counts]:
    """Yield two moves: one local epoch more for a learner of the fewest, or one less for one of the most."""
    local_epochs = steps.local_epochs(counts)
    fewest, most = int(local_epochs.min()), int(local_epochs.max())
    # each learner's samples for one local epoch more than the fewest, at most, and one less than the most, at least
    upper, lower = steps.most_for(fewest + 1), steps.most_for(most) + 1
    can_rise = (local_epochs == fewest) & (upper >= steps.low)
    if can_rise.any():
        learner = int(np.argmin(np.where(can_rise, counts - upper, MOST)))
        others = local_epochs > fewest
        within = np.where(others, steps.most_for(local_epochs) - counts, 0)
        taken = _spread(
            int(counts[learner] - upper[learner]), within, np.where(others, upper - counts, 0), -local_epochs
        )
        if taken is not None:
            moved = counts + taken
            moved[learner] = upper[learner]
            yield moved
    can_fall = (local_epochs == most) & (lower <= steps.high)
    if can_fall.any():
        learner = int(np.argmin(np.where(can_fall, lower - counts, MOST)))
        others = local_epochs < most
        within = np.where(others, counts - (steps.most_for(local_epochs + 1) + 1), 0)
        given = _spread(
            int(lower[learner] - counts[learner]), within, np.where(others, counts - lower, 0), local_epochs
        )
        if given is not None:
            moved = counts - given
            moved[learner] = lower[learner]
            yield moved


def _spread(amount: int, within: Counts, rooms: Counts, order: Counts) -> Counts | None:
    """Split the amount: evenly if nobody's local epochs change, else in an order; None if there is no room."""
    if sum(within.tolist()) >= amount:
        return np.array(split_evenly(amount, within.tolist()), dtype=np.int64)
    parts = np.zeros_like(rooms)
    for learner in np.argsort(order, kind="stable").tolist():
        parts[learner] = min(amount, int(rooms[learner]))
        amount -= int(parts[learner])
    return None if amount else parts
