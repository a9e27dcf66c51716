"""The least staleness, exactly: whole shares whose local epochs differ as little as possible.

For a window [lo, hi] of local epochs, learner k can take a_k to b_k samples, where b_k is the most with τ_k ≥ lo, and
a_k one more than the most with τ_k > hi. All samples can be handed out within the window if no learner's interval is
empty and Σ a_k ≤ d ≤ Σ b_k. Three thresholds give the smallest window.

- lo can be at most the largest with Σ b_k ≥ d, and hi must be at least the smallest with Σ a_k ≤ d. Let these be l and
  h. Always l ≤ h, since a_k exceeds the b_k of any higher lo.
- At lo = l, only learners whose local epochs jump over [l, h], from g_k above h down to n_k below l, have empty
  intervals. For each of them either hi ≥ g_k or lo ≤ n_k. Once lo ≤ n_k, k has a share within [lo, h], whatever lo is.
- So it is best to give way for some number of those with the largest g_k. Trying them all takes a sort.

Within a window the sum of local epochs is as large as can be if the cheapest learners are put to fewer local epochs
than their most, a cheapest cover (see `cover`). Often lo and hi differ by one; then it is those with the largest
b_k − a_k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from paceline.allocation.csa.cover import Options, cheapest_cover
from paceline.allocation.csa.steps import Counts, Steps, total_of
from paceline.allocation.cycle_problem import Conflict
from paceline.allocation.rounding import split_evenly

MAX_OPTIONS = 500_000
"""Limit of options, over all learners; beyond it, only those near the ends of the window are considered."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CyclePlan:
    """Shares of the least staleness.

    Attributes:
        counts: samples, or other units, of each learner.
        local_epochs: local epochs of each learner.
        is_sum_proven: whether the sum of local epochs is proven the largest for this staleness; always, except for
            wide windows and many learners: see `MAX_OPTIONS` and `cover.MAX_STEPS`.
    """

    counts: Counts
    local_epochs: Counts
    is_sum_proven: bool

    @property
    def staleness(self) -> int:
        """Largest difference between two learners' local epochs."""
        return int(self.local_epochs.max() - self.local_epochs.min())


def find_conflict(steps: Steps, total: int, min_local_epochs: int) -> Conflict | None:
    """Find out why no shares keep all limits; None if some do."""
    if total_of(steps.low) > total:
        return Conflict(kind="least", most=total)
    if total_of(steps.high) < total:
        return Conflict(kind="most", most=total_of(steps.high))
    most = steps.local_epochs(steps.low)
    slowest = int(np.argmin(most))
    if most[slowest] < min_local_epochs:
        return Conflict(kind="learner", most=int(most[slowest]), learner=slowest)
    most_samples = total_of(steps.most_for(min_local_epochs))
    return Conflict(kind="time", most=most_samples) if most_samples < total else None


def most_in_common(steps: Steps, total: int, min_local_epochs: int) -> int:
    """Find the most local epochs that all learners have time for; there must be no conflict."""
    slowest = int(steps.local_epochs(steps.low).min())
    return _last(lambda count: total_of(steps.most_for(count)) >= total, min_local_epochs, slowest)


def take_back(counts: Counts, floors: Counts, total: int) -> Counts:
    """Lower the counts evenly to the total, none below its floor."""
    parts = split_evenly(total_of(counts) - total, (counts - floors).tolist())
    return counts - np.array(parts, dtype=np.int64)


def least_staleness(steps: Steps, total: int, min_local_epochs: int) -> CyclePlan:
    """Find the best shares; there must be no conflict."""
    steps = steps.limited(np.minimum(steps.high, total))
    plans = [_fill(steps, total, *window) for window in _windows(steps, total, min_local_epochs)]
    best = max(plans, key=lambda plan: total_of(plan.local_epochs))
    return replace(best, is_sum_proven=all(plan.is_sum_proven for plan in plans))


def _windows(steps: Steps, total: int, min_local_epochs: int) -> list[tuple[int, int]]:
    """Find the smallest windows, all of one size; mostly there is only one."""
    top = most_in_common(steps, total, min_local_epochs)

    def is_too_low(count: int) -> bool:
        return total_of(steps.most_for(count + 1) + 1) > total

    # below it all are too low, since the shares for `top` local epochs or more are at least the total
    bottom = _last(is_too_low, top - 1, int(steps.local_epochs(steps.low).max())) + 1
    counts = steps.most_for(top)
    above = steps.local_epochs(counts)
    jumping = np.flatnonzero(above > bottom)
    jumping = jumping[np.argsort(-above[jumping], kind="stable")]
    nexts = np.where(counts < steps.high, steps.local_epochs(np.minimum(counts + 1, steps.high)), -1)
    low_ends = np.minimum.accumulate(np.append(top, nexts[jumping]))
    high_ends = np.append(above[jumping], bottom)
    valid = low_ends >= min_local_epochs
    low_ends, high_ends = low_ends[valid], high_ends[valid]
    smallest = high_ends - low_ends == (high_ends - low_ends).min()
    return list(dict.fromkeys(zip(low_ends[smallest].tolist(), high_ends[smallest].tolist(), strict=True)))


def _fill(steps: Steps, total: int, low_end: int, high_end: int) -> CyclePlan:
    """Find the shares within a window that have the largest sum of local epochs."""
    floors = steps.most_for(high_end + 1) + 1
    most_local_epochs = steps.local_epochs(floors)
    first, last = steps.most_for(most_local_epochs), steps.most_for(low_end)
    needed = total - total_of(first)
    counts, is_sum_proven = first, True
    if needed > 0:
        options, is_all = _options(steps, first, last)
        cover = cheapest_cover(options, needed)
        counts, is_sum_proven = first + options.gains[cover.chosen], is_all and cover.is_best
        if not is_sum_proven:
            counts = _use_excess(steps, counts, floors, total)
    counts = take_back(counts, floors, total)
    return CyclePlan(counts=counts, local_epochs=steps.local_epochs(counts), is_sum_proven=is_sum_proven)


def _options(steps: Steps, first: Counts, last: Counts) -> tuple[Options, bool]:
    """List the most samples of each learner for every number of local epochs between two shares, and if these are all.

    They are found by going through the local epochs, or through the samples where those are fewer.
    """
    most, least = steps.local_epochs(first), steps.local_epochs(last)
    by_local_epochs = most - least <= last - first
    spans = np.where(by_local_epochs, most - least, last - first)
    half = max(1, MAX_OPTIONS // (2 * len(spans)))
    is_all = total_of(spans + 1) <= MAX_OPTIONS
    sizes = spans + 1 if is_all else np.minimum(spans + 1, 2 * half)
    learners = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(learners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if not is_all:
        place = np.where(place < half, place, (spans + 1 - sizes)[learners] + place)
    counts = first[learners] + place
    own = np.flatnonzero(by_local_epochs[learners])
    counts[own] = steps.take(learners[own]).most_for(most[learners[own]] - place[own])
    local_epochs = steps.take(learners).local_epochs(counts)
    is_last = np.append((np.diff(learners) > 0) | (np.diff(local_epochs) < 0), True)
    learners, counts, local_epochs = learners[is_last], counts[is_last], local_epochs[is_last]
    options = Options(
        starts=np.searchsorted(learners, np.arange(len(sizes))),
        drops=most[learners] - local_epochs,
        gains=counts - first[learners],
    )
    return options, is_all


def _use_excess(steps: Steps, counts: Counts, floors: Counts, total: int) -> Counts:
    """Take what shares exceed the total from the learner that gains the most local epochs, then the next."""
    counts = counts.copy()
    while (excess := total_of(counts) - total) > 0:
        lower = np.maximum(floors, counts - excess)
        gained = steps.local_epochs(lower) - steps.local_epochs(counts)
        best = int(np.argmax(gained))
        if gained[best] <= 0:
            break
        own = np.array([best])
        counts[best] = steps.take(own).most_for(steps.take(own).local_epochs(lower[own]))[0]
    return counts


def _last(holds: Callable[[int], bool], first: int, last: int) -> int:
    """Find the last number up to `last` for which a condition holds that is true at first and then false."""
    step = 1
    fails = last + 1
    while first + step < fails:
        if holds(first + step):
            first, step = first + step, 2 * step
        else:
            fails = first + step
    while fails - first > 1:
        middle = first + (fails - first) // 2
        if holds(middle):
            first = middle
        else:
            fails = middle
    return first
